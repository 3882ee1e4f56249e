"""Acts on one rule. Scripts get JSON, forms a redirect; what cannot be is 409 with why, and nothing typed is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from adaexplore_site.access import Role, can, require, role_required
from adaexplore_site.audit import ActionRefused
from adaexplore_site.models import Action
from adaexplore_site.requests import SiteRequest
from memory.models import Rule, RuleVersion
from memory.rule_cards import rule_cards
from memory.rule_history import last_deed
from memory.rule_selectors import RuleFilter, open_reviews, rules_filtered
from memory.rule_words import act_said
from memory.scope_form import scope_asked
from memory.services import rules_acts as acts
from memory.services import rules_merges as merges
from memory.services.rules import rule_create
from memory.services.rules_acts import Card
from memory.services.rules_claims import rule_hold
from memory.services.rules_desk import RuleChanged, WordsTaken, scope_of
from memory.services.rules_undo import rule_undo
from memory.views.rules import act_context, say_on_list

DEFER_DAYS = 7


@dataclass(frozen=True)
class Asked:
    """A form's fields, the rule as its card showed it, and the time."""

    fields: Mapping[str, str]
    failures: tuple[int, ...]
    card: Card
    now: datetime


def _scope(asked: Asked) -> Action:
    return acts.rule_scope(scope=scope_asked(asked.fields), **asked.card)


def _split(asked: Asked) -> Action:
    return merges.rule_split(failures=asked.failures, text=asked.fields.get("text", ""), **asked.card)


ACTS: Mapping[str, Callable[[Asked], Action]] = {
    "approve": lambda a: acts.rule_approve(now=a.now, **a.card),
    "reject": lambda a: acts.rule_reject(reason=reason_of(a.fields), now=a.now, **a.card),
    "retire": lambda a: acts.rule_retire(reason=reason_of(a.fields), now=a.now, **a.card),
    "restore": lambda a: acts.rule_restore(**a.card),
    "defer": lambda a: acts.rule_defer(
        days=whole(a.fields.get("days") or str(DEFER_DAYS), "days"), now=a.now, **a.card
    ),
    "edit": lambda a: acts.rule_edit(text=a.fields.get("text", ""), why=a.fields.get("why", ""), **a.card),
    "scope": _scope,
    "rollback": lambda a: acts.rule_rollback(number=whole(a.fields.get("number", ""), "version"), **a.card),
    "merge": lambda a: merges.rule_merge(into=whole(a.fields.get("into", ""), "rule"), **a.card),
    "unmerge": lambda a: merges.rule_unmerge(**a.card),
    "split": _split,
}
_ENDS = {"approve": Rule.State.APPROVED, "reject": Rule.State.REJECTED, "retire": Rule.State.RETIRED}
WORDING = ("edit", "scope", "rollback")  # what an operator may do, too: an approved rule becomes a proposal by it


def rule_act_do(request: SiteRequest, rule_id: int) -> HttpResponse:
    """Do the act named `act` to the rule as the card showed it (`revision`). POST only."""
    name = request.POST.get("act", "")
    if not (name in WORDING and can(request.user, Role.OPERATOR)):
        require(request.user, Role.REVIEWER)
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    get_object_or_404(Rule, pk=rule_id)
    try:
        act = ACTS.get(name)
        if act is None:
            raise ActionRefused(f"There is no act {name[:20]!r}. Reload the page and try again.")
        action = act(_asked(request, rule_id))
    except RuleChanged as changed:
        return _conflict(request, changed.rule)
    except ActionRefused as error:
        return _refused(request, error, rule_id)
    return _done(request, action, rule_id)


def _asked(request: SiteRequest, rule_id: int) -> Asked:
    fields = {name: str(value) for name, value in request.POST.items()}
    card = Card(
        rule_id=rule_id,
        revision=whole(fields.get("revision", ""), "revision"),
        user=request.user,
        key=fields.get("key", "")[:64] or None,
    )
    failures = tuple(whole(text, "sighting") for text in request.POST.getlist("failure"))
    return Asked(fields, failures, card, timezone.now())


def _done(request: SiteRequest, action: Action, rule_id: int) -> HttpResponse:
    said = act_said(action)
    if not request.htmx:
        if request.POST.get("back") == "rule":
            messages.success(request, said)
            return redirect("rule-detail", rule_id=rule_id)
        say_on_list(request, action)
        return redirect(_queue(request))
    now = timezone.now()
    stays = rules_filtered(RuleFilter(), now).filter(pk=rule_id).exists()
    answer = {"act": action.pk, "said": said, "open": open_reviews(now), "rule": rule_id}
    others = "".join(card_html(request, pk) for pk in _others(action))
    return JsonResponse({**answer, "card": card_html(request, rule_id) if stays else "", "others": others})


def _others(action: Action) -> list[int]:
    """Further rules that an act, or what it undid, has changed: cards of them on the page are too old now."""
    first = Action.objects.filter(pk=action.after["undoes"]).first() if "undoes" in action.after else action
    other = first.after.get("other") if first else None
    return [other["rule"]] if other else []


def card_html(request: SiteRequest, rule_id: int, **extra: Any) -> str:
    """The card as the queue shows it now."""
    cards = rule_cards([rule_id], user=request.user, now=timezone.now())
    context = {"cards": cards, **act_context(request, RuleFilter()), **extra}
    return render_to_string("memory/_cards.html", context, request)


def _conflict(request: SiteRequest, rule: Rule) -> HttpResponse:
    """Both versions side by side, and what was asked as a form that can be sent again for the rule as it is now."""
    seen = RuleVersion.objects.filter(pk=_id(request.POST.get("version", "")), rule=rule).first()
    skip = ("csrfmiddlewaretoken", "key", "revision", "version")
    asked = [(name, value) for name in request.POST if name not in skip for value in request.POST.getlist(name)]
    conflict = {
        "rule": rule,
        "version": rule.current,
        "seen": seen,
        "seen_scope": scope_of(seen) if seen else None,
        "scope": scope_of(rule.current) if rule.current else None,
        "asked": asked,
        "act": request.POST.get("act", ""),
        "typed": request.POST.get("text", ""),
        "last": last_deed(rule),
        "done": rule.state == _ENDS.get(request.POST.get("act", "")) and not rule.recheck,
        "same_words": seen is not None and seen.pk == rule.current_id,
    }
    if request.htmx:
        html = card_html(request, rule.pk, conflict=conflict)
        return JsonResponse(
            {"refused": "", "card": html, "rule": rule.pk, "open": open_reviews(timezone.now())}, status=409
        )
    context = {"conflict": conflict, "back_to": _queue(request), **act_context(request, RuleFilter())}
    return render(request, "memory/rule_conflict.html", context, status=409)


def _refused(request: SiteRequest, error: ActionRefused, rule_id: int | None) -> HttpResponse:
    message, other = str(error), _taken_by(error)
    if request.htmx:
        html = card_html(request, rule_id, refused=message, taken_by=other) if rule_id else ""
        return JsonResponse({"refused": message, "card": html, "rule": rule_id}, status=409)
    back = reverse("rule-detail", args=[rule_id]) if rule_id else reverse("rule-list")
    typed = request.POST.get("text", "")[:2000]
    context = {"message": message, "taken_by": other, "back_to": back, "typed": typed}
    return render(request, "memory/rule_refused.html", context, status=409)


def _taken_by(error: ActionRefused) -> int | None:
    """The rule that has the words already, for a link."""
    return error.rule_id if isinstance(error, WordsTaken) else None


@role_required(Role.REVIEWER)
@require_POST
def rule_undo_act(request: SiteRequest) -> HttpResponse:
    """Undo the act `action`. The answer has the card again when its rule waits for a review."""
    fields = request.POST
    try:
        action = whole(fields.get("action", ""), "act")
        undo = rule_undo(action_id=action, user=request.user, key=fields.get("key", "")[:64] or None)
    except ActionRefused as error:
        return _refused(request, error, None)
    rule_id = _id(undo.object_id)
    if not Rule.objects.filter(pk=rule_id).exists():
        rule_id = 0
    if request.htmx:
        return _done(request, undo, rule_id)
    messages.success(request, act_said(undo))
    if fields.get("back") == "rule" and rule_id:
        return redirect("rule-detail", rule_id=rule_id)
    return redirect(_queue(request))


@role_required(Role.REVIEWER)
@require_POST
def rule_hold_card(request: SiteRequest, rule_id: int) -> JsonResponse:
    """Claim the card for a minute. The answer names who else has it, and the rule's revision."""
    now = timezone.now()
    rule = rule_hold(rule_id=rule_id, user=request.user, now=now)
    if rule is None:
        return JsonResponse({"gone": True})
    mine = rule.held_by_id == request.user.pk
    return JsonResponse(
        {"holder": "" if mine or not rule.held_by else rule.held_by.get_username(), "revision": rule.revision}
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def rule_new(request: SiteRequest) -> HttpResponse:
    """Propose a rule in one's own words. What cannot be is 409 with the reason and the words again."""
    fields = request.POST if request.method == "POST" else request.GET
    writer = can(request.user, Role.REVIEWER) or can(request.user, Role.OPERATOR)
    typed = {name: fields.get(name, "")[:1000] for name in ("text", "family", "arch", "triton")}
    context: dict[str, Any] = {"fields": typed, "writer": writer}
    if request.method != "POST":
        return render(request, "memory/rule_new.html", context)
    if not writer:
        raise PermissionDenied("This needs the role 'reviewer' or 'operator'. Ask an admin to add it to your account.")
    try:
        scope = scope_asked(fields)
        act = rule_create(
            text=fields.get("text", ""), scope=scope, user=request.user, key=fields.get("key", "")[:64] or None
        )
    except ActionRefused as error:
        context |= {"refused": str(error), "taken_by": _taken_by(error)}
        return render(request, "memory/rule_new.html", context, status=409)
    messages.success(request, act_said(act))
    return redirect("rule-detail", rule_id=int(act.object_id))


def reason_of(fields: Mapping[str, str]) -> str:
    """A reason's number from its button, or the person's own words."""
    return fields.get("own_reason", "").strip() or fields.get("reason", "")


def whole(text: str, name: str) -> int:
    """A whole number out of a field. Raises ActionRefused with the field's name."""
    clean = text.strip().removeprefix("#")
    if not clean.isascii() or not clean.isdigit() or len(clean) > 12:
        raise ActionRefused(f"Enter a whole number for {name}, not {text[:40]!r}.")
    return int(clean)


def _id(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 13 else 0


def _queue(request: SiteRequest) -> str:
    query = request.POST.get("query", "")[:400]
    return reverse("rule-list") + (f"?{query}" if query else "")
