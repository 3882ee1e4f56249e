"""Forms of any action: a plain POST, answered by a redirect, a panel, a question, or the reason why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from adaexplore_site.actions import registry, runner
from adaexplore_site.actions.action import Action, Question
from adaexplore_site.actions.runner import Outcome, Request, Unconfirmed
from adaexplore_site.core.access import Role
from adaexplore_site.core.audit import ActionRefused, FieldsRefused
from adaexplore_site.core.requests import SiteRequest, came_from, form_key

View = Callable[..., HttpResponseBase]


def action_routes(app: str) -> list[URLPattern]:
    """The addresses of the actions of an app; those that share one are told apart by the field that they send."""
    shared: dict[tuple[str, str], list[Action]] = {}
    for row in registry.actions():
        if row.path and row.__module__.startswith(f"{app}."):
            shared.setdefault((row.path, row.route), []).append(row)
    return [path(address, _view_of(rows), name=route) for (address, route), rows in shared.items()]


def _view_of(rows: list[Action]) -> View:
    field = next(iter(rows[0].sends), "")
    return actions_view(field, {row.sends[field]: row.name for row in rows}) if field else action_view(rows[0].name)


def action_view(name: str) -> View:
    """The view that takes the form of one action. Who lacks the role is told so, whatever the method.

    The address of an action that asks only there is a page with its question, which everybody may read.
    """

    def view(request: SiteRequest, **where: Any) -> HttpResponseBase:
        action = registry.action(name)
        if not action.must_confirm and request.method != "POST":
            return _asked(request, action, where)
        runner.may(action, request.user)
        return _posted(request, name, where)

    return view


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def _asked(request: SiteRequest, action: Action, where: Mapping[str, Any]) -> HttpResponse:
    target = action.locate(where)
    question = action.question(target, {})
    if question is None or not action.visible(target, request.user):
        raise Http404
    return confirmation(request, question, lacking=action.may(request.user))


def actions_view(field: str, names: Mapping[str, str]) -> View:
    """The view of forms that share an address: `field` says which action of `names` is meant."""

    def view(request: SiteRequest, **where: Any) -> HttpResponseBase:
        if request.method != "POST":
            for name in set(names.values()):
                runner.may(registry.action(name), request.user)
            return HttpResponseNotAllowed(["POST"])
        return answer(request, chosen(request, field, names), where)

    return view


@require_POST
def _posted(request: SiteRequest, name: str, where: Mapping[str, Any]) -> HttpResponseBase:
    return answer(request, registry.action(name), where)


def chosen(request: SiteRequest, field: str, names: Mapping[str, str]) -> Action:
    """The action of `names` that a field of the form means. Raises PermissionDenied, Http404."""
    asked = request.POST.get(field, "")
    for name in [names[asked]] if asked in names else set(names.values()):
        runner.may(registry.action(name), request.user)
    if asked not in names:
        raise Http404(gettext("There is no such action. Reload the page and try again."))
    return registry.action(names[asked])


def submit(request: SiteRequest, action: Action, where: Mapping[str, Any]) -> Outcome:
    """Do what a form asks for. Raises what the runner raises: for pages that show their own form again."""
    asked = Request(action, where, request.POST, request.FILES)
    return runner.perform(asked, user=request.user, key=form_key(request))


def answer(request: SiteRequest, action: Action, where: Mapping[str, Any]) -> HttpResponseBase:
    """Do it, then show what came of it."""
    try:
        outcome = submit(request, action, where)
    except Unconfirmed as error:
        return confirmation(request, error.question)
    except ActionRefused as error:
        return refused(request, action, where, error)
    return done(request, action, outcome)


def done(request: SiteRequest, action: Action, outcome: Outcome) -> HttpResponseBase:
    """The panel again for scripts; the next page, with a message, for forms."""
    result = outcome.result
    if request.htmx or result.shown_once:
        shown = {name: _absolute(request, text) for name, text in result.shown_once.items()}
        panel = action.panel(request, result.target or outcome.target, done=result.message, outcome=outcome, **shown)
        if panel is not None:
            return panel  # type: ignore[no-any-return]
    if request.htmx:
        return HttpResponseClientRedirect(result.location) if result.location else HttpResponse(status=204)
    page = result.location or came_from(request) or action.home(outcome.target)
    if result.message and (outcome.entry is None or not action.tells(page, request.user)):
        messages.success(request, result.message)
    if result.warning:
        messages.error(request, result.warning)
    return redirect(page)


def _absolute(request: SiteRequest, text: str) -> str:
    """A path of this site with its host, so that it can be given to somebody else."""
    return request.build_absolute_uri(text) if text.startswith("/") else text


def refused(request: SiteRequest, action: Action, where: Mapping[str, Any], error: ActionRefused) -> HttpResponseBase:
    """422 for fields that are wrong, 409 for what is not possible now; what was typed is kept."""
    status = error.status
    target = action.locate(where)
    typed = {name: str(value) for name, value in request.POST.items()}
    panel = action.panel(request, target, status=status, refused=str(error), error=error, typed=typed)
    if panel is not None:
        return panel  # type: ignore[no-any-return]
    form = error.form if isinstance(error, FieldsRefused) else action.form(target, request.POST, request.FILES)
    context = {
        "action": action,
        "message": str(error),
        "see": error.see,
        "form": form if form is not None and form.fields else None,
        "url": request.path,
        "sends": action.sends,
        "back": came_from(request) or action.home(target),
    }
    template = "actions/_refused.html" if request.htmx else "actions/refused.html"
    return render(request, template, context, status=status)


def form_again(
    request: SiteRequest, action: Action, where: Mapping[str, Any], error: ActionRefused
) -> tuple[forms.Form, int]:
    """The form with the reason on it, and the status of the answer, for a page that shows its own form."""
    sent = error.form if isinstance(error, FieldsRefused) else None
    form = sent if isinstance(sent, forms.Form) else action.form(action.locate(where), request.POST, request.FILES)
    if form.is_valid():  # it was refused later, by the service
        fields = error.fields if isinstance(error, FieldsRefused) else {"": str(error)}
        for name, text in fields.items():
            form.add_error(name if name in form.fields else None, text)
    return form, error.status


def confirmation(request: SiteRequest, question: Question, *, lacking: Role | None = None) -> HttpResponse:
    """A page that asks, with the fields of the form on it. `lacking` is the role without which it cannot be done."""
    kept = [(name, value) for name in request.POST for value in request.POST.getlist(name)]
    fields = [(name, value) for name, value in kept if name not in ("csrfmiddlewaretoken", "sure")]
    return render(request, "confirm.html", {"question": question, "fields": fields, "lacking": lacking})
