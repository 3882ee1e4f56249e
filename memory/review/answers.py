"""What the scripts of the review queue get for an action on a rule, and the page of a decision that came too late."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils import timezone

from adaexplore_site.core.audit import NOTHING, ActionRefused
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.requests import SiteRequest, came_from
from memory.review.cards import rule_cards
from memory.review.history import last_deed, said
from memory.review.queries import RuleFilter, open_reviews, rules_filtered
from memory.review.views import act_context
from memory.rules.desk import scope_of
from memory.rules.models import Rule, RuleVersion

_ENDS = {"approve": Rule.State.APPROVED, "reject": Rule.State.REJECTED, "retire": Rule.State.RETIRED}


def answered(request: SiteRequest, entry: AuditEntry) -> JsonResponse:
    """What was done, and the card again while its rule waits for a review. `rule` is 0 for several or a gone one."""
    rule_id = int(entry.object_id)
    others = "".join(card_html(request, pk) for pk in _others(entry))
    return _answer(request, rule_id, act=entry.pk, said=said(entry), others=others)


def unchanged(request: SiteRequest, rule_id: int) -> JsonResponse:
    """The same where the rule is so already: there is nothing to undo."""
    return _answer(request, rule_id, act=None, said=NOTHING, others="")


def _answer(request: SiteRequest, rule_id: int, **answer: Any) -> JsonResponse:
    now = timezone.now()
    rule_id = rule_id if Rule.objects.filter(pk=rule_id).exists() else 0
    stays = rules_filtered(RuleFilter(), now).filter(pk=rule_id).exists()
    card = card_html(request, rule_id) if stays else ""
    return JsonResponse({**answer, "open": open_reviews(now), "rule": rule_id, "card": card})


def refusal(request: SiteRequest, error: ActionRefused, rule_id: int | None) -> JsonResponse:
    """Why it was refused, on the card and by itself."""
    html = card_html(request, rule_id, refused=str(error), see=error.see) if rule_id else ""
    return JsonResponse({"refused": str(error), "card": html, "rule": rule_id}, status=error.status)


def conflict(request: SiteRequest, rule: Rule) -> HttpResponse:
    """409: both versions side by side, and what was asked as a form to send again for the rule as it is now."""
    seen = RuleVersion.objects.filter(pk=_id(request.POST.get("version", "")), rule=rule).first()
    skip = ("csrfmiddlewaretoken", "key", "revision", "version")
    asked = [(name, value) for name in request.POST if name not in skip for value in request.POST.getlist(name)]
    facts = {
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
        html = card_html(request, rule.pk, conflict=facts)
        answer = {"refused": "", "card": html, "rule": rule.pk, "open": open_reviews(timezone.now())}
        return JsonResponse(answer, status=409)
    context = {**act_context(request, RuleFilter(), back=came_from(request)), "conflict": facts}
    return render(request, "review/rule_conflict.html", context, status=409)


def card_html(request: SiteRequest, rule_id: int, **extra: Any) -> str:
    """The card as the queue shows it now."""
    cards = rule_cards([rule_id], user=request.user, now=timezone.now())
    context = {"cards": cards, **act_context(request, RuleFilter(), back=came_from(request)), **extra}
    return render_to_string("review/_cards.html", context, request)


def _others(entry: AuditEntry) -> list[int]:
    """Further rules that an action, or what it undid, has changed: cards of them on the page are too old now."""
    first = AuditEntry.objects.filter(pk=entry.after["undoes"]).first() if "undoes" in entry.after else entry
    other = first.after.get("other") if first else None
    return [other["rule"]] if other else []


def _id(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 13 else 0
