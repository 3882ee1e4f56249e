"""Every act of the registry as an operation: it calls the view that takes the act's form, so there is one truth of it.

The view checks the role, calls the service and answers with a page. `adaexplore_site.pages` hands us the facts of that
page, which say why an act was refused or what is shown only once.
"""

from __future__ import annotations

import copy
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.messages import ERROR
from django.core.exceptions import PermissionDenied
from django.forms import BaseForm
from django.http import Http404, HttpRequest, HttpResponseBase, QueryDict
from django.urls import NoReverseMatch, resolve, reverse
from django.utils.datastructures import MultiValueDict
from django.utils.module_loading import import_string
from django_htmx.middleware import HtmxDetails

from adaexplore_site.access import Role, require, roles_of
from adaexplore_site.models import Action
from adaexplore_site.registry.entries import Act
from search.models import Run

SHOWN_ONCE = ("link", "token_text", "secret")  # facts of a page that nobody can read again
REFUSALS = ("refused", "message", "steer_refused", "reply_error", "upload_error", "error")


@dataclass
class Heard:
    """In place of the message storage of a session: what the view tells the person, and why it did not do the act."""

    said: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, level: int, message: Any, extra_tags: str = "") -> None:
        """One message."""
        (self.wrong if level >= ERROR else self.said).append(str(message))


@dataclass(frozen=True)
class Answer:
    """Status and body of an act."""

    status: int
    body: dict[str, Any]


def act_do(
    request: HttpRequest,
    act: Act,
    where: Mapping[str, Any],
    fields: QueryDict,
    files: MultiValueDict[str, Any],
    key: str,
) -> Answer:
    """Do the act as the form's own view does it. `key` makes a repetition one act."""
    assert isinstance(request.user, User)
    own = audit_key(request.user, act.id, key)
    heard, facts = Heard(), dict[str, Any]()
    try:
        inner = _form_request(request, act, where, fields, files, own)
    except NoReverseMatch:
        return Answer(404, {"detail": "There is no such thing."})
    inner._messages, inner.facts = heard, facts  # type: ignore[attr-defined]
    match = resolve(inner.path)
    try:
        response = match.func(inner, *match.args, **match.kwargs)
    except PermissionDenied as refusal:
        return Answer(403, {"detail": _why_not_allowed(request, str(refusal))})
    except Http404 as missing:
        return Answer(404, {"detail": str(missing) or "There is no such thing."})
    if response.status_code >= 400:
        return _refused(response, facts, where)
    return _done(response, act, facts, heard, own)


def not_allowed(request: HttpRequest, act: Act, where: Mapping[str, Any]) -> Answer | None:
    """403 for whoever may not do the act now, even where it was done before; None for all others."""
    assert isinstance(request.user, User)
    if getattr(request.user, "via", "") and roles_of(request.user) <= {Role.VIEWER}:
        return Answer(403, {"detail": _why_not_allowed(request, "The role viewer reads and does nothing by a token.")})
    try:
        view = resolve(reverse(act.route, kwargs=dict(where))).func
        require(request.user, getattr(view, "required_role", Role.VIEWER))
    except NoReverseMatch:
        return None  # the act itself says that there is no such thing
    except PermissionDenied as refusal:
        return Answer(403, {"detail": _why_not_allowed(request, str(refusal))})
    return None


def outdated(where: Mapping[str, Any], version: str) -> Answer | None:
    """409 when a search has gone on since the event that `If-Match` names; None when it has not, or nobody asks.

    Looked at just before the act. Rules need no such header: an act on one sends its `revision`.
    """
    wanted = version.strip().removeprefix("W/").strip('"')
    if not wanted:
        return None
    if not (wanted.isascii() and wanted.isdigit()):
        return Answer(422, {"detail": "If-Match takes the event_seq of the search."})
    now = _now({}, where)
    if str(now.get("event_seq", wanted)) == wanted:
        return None
    return Answer(409, {"detail": f"The search has gone on since event {wanted}. Look again.", "now": now})


def audit_key(user: User, act: str, key: str) -> str:
    """The key of the audit's row: keys of others, and of other acts, are never met."""
    text = f"{user.pk}\0{act}\0{key or secrets.token_urlsafe(24)}"
    return hashlib.sha256(text.encode()).hexdigest()


def _form_request(
    request: HttpRequest,
    act: Act,
    where: Mapping[str, Any],
    fields: QueryDict,
    files: MultiValueDict[str, Any],
    key: str,
) -> HttpRequest:
    """The request that the act's form would make in a browser without scripts."""
    inner = copy.copy(request)
    inner.path = inner.path_info = reverse(act.route, kwargs=dict(where))
    inner.method = "POST"
    inner.GET = QueryDict()
    sent = fields.copy()
    for name, value in {**act.fields, "key": key}.items():
        sent[name] = value
    inner.POST = sent  # type: ignore[assignment]
    inner._files = files  # type: ignore[attr-defined]
    inner.META = {name: value for name, value in request.META.items() if not name.startswith("HTTP_HX_")}
    inner.__dict__.pop("headers", None)  # made anew of META
    inner.htmx = HtmxDetails(inner)  # type: ignore[attr-defined]
    inner.session = import_string(f"{settings.SESSION_ENGINE}.SessionStore")()  # nothing of a page is remembered
    return inner


def _why_not_allowed(request: HttpRequest, words: str) -> str:
    token = getattr(request.user, "via", "")
    return f"{words} The token “{token}” may lack the scope for it." if token else words


def _refused(response: HttpResponseBase, facts: Mapping[str, Any], where: Mapping[str, Any]) -> Answer:
    """Bad fields are 422, what cannot be now is 409; both with what to do."""
    fields = _field_errors(facts)
    words = next((str(facts[name]) for name in REFUSALS if facts.get(name)), "")
    words = words or " ".join([*_form_errors(facts), *fields.values()])
    status = response.status_code
    if status < 400 or (fields and status == 409):
        status = 422
    body: dict[str, Any] = {"detail": words or "The act was refused."}
    if fields:
        body["fields"] = fields
    if now := _now(facts, where):
        body["now"] = now
        body["detail"] = (
            words or "Somebody has changed it since. Look at `now`, and send the act again if it still fits."
        )
    return Answer(status, body)


def _form_errors(facts: Mapping[str, Any]) -> list[str]:
    """What is said of a form as a whole, not of a field."""
    return [str(words) for form in _forms(facts) for words in form.non_field_errors()]


def _forms(facts: Mapping[str, Any]) -> list[BaseForm]:
    return [value for value in facts.values() if isinstance(value, BaseForm) and value.is_bound]


def _field_errors(facts: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in _forms(facts):
        for name, rows in value.errors.get_json_data().items():
            if name != "__all__":
                found[name] = " ".join(row["message"] for row in rows)
    wrong = facts.get("errors")
    return {**found, **wrong} if isinstance(wrong, dict) else found


def _now(facts: Mapping[str, Any], where: Mapping[str, Any]) -> dict[str, Any]:
    """The values that the act met, where they may be what refused it."""
    conflict = facts.get("conflict")
    if isinstance(conflict, dict):
        rule, version = conflict["rule"], conflict["version"]
        return {"revision": rule.revision, "state": rule.state, "text": version.text if version else None}
    if "run_id" in where:
        return dict(Run.objects.filter(pk=where["run_id"]).values("state", "event_seq").first() or {})
    return {}


def _done(response: HttpResponseBase, act: Act, facts: Mapping[str, Any], heard: Heard, key: str) -> Answer:
    """200 with what was done; 202 where the page asks for patience, 409 where it asks whether one is sure, and where
    it leads back with what is wrong."""
    if heard.wrong:
        return Answer(409, {"detail": " ".join(heard.wrong)})
    if "ask" in facts:
        return Answer(409, {"detail": f"{facts['ask']} {facts['what']} Send sure: true to do it.", "sure": False})
    shown = {name: facts[name] for name in SHOWN_ONCE if facts.get(name) and isinstance(facts[name], str)}
    page = response.status_code == 200 and facts and not shown
    if page and any(isinstance(value, BaseForm) and value.errors for value in facts.values()):
        return _refused(response, facts, {})
    row = Action.objects.filter(key=key).first()
    if page and row is None:
        return Answer(202, {"done": False, "detail": "Not yet: what it needs is being prepared. Send it again soon."})
    return Answer(
        200,
        {
            "done": True,
            "act": act.id,
            "said": heard.said,
            "at": response.headers.get("Location"),
            "action": None if row is None else _action(row),
            **shown,
        },
    )


def _action(row: Action) -> dict[str, Any]:
    return {"id": row.pk, "verb": row.verb, "object": [row.object_type, row.object_id], "after": row.after}
