"""Rules on pages: the review queue, the library, one rule."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.access import Role, can
from adaexplore_site.core.requests import SiteRequest
from memory.review.cards import rule_cards, sightings_of
from memory.review.history import deeds_of, said, wordings_of
from memory.review.library import SORTS, hits_of, last_act, library_page, uses_of
from memory.review.queries import SCOPES, TABS, RuleFilter, query_of, review_queue
from memory.rules.bulk import FROM
from memory.rules.decisions import REASONS
from memory.rules.models import Rule
from memory.rules.transfer import EXPORTS

CARDS = 6  # the one to decide and the next five
SIGHTINGS = 50


@never_cache
@require_safe
def rule_list(request: SiteRequest) -> HttpResponse:
    """The review queue as cards, or decided rules as a table. Query: the filter, sort, from, rule."""
    now = timezone.now()
    chosen = filter_of(request)
    start = _number(request.GET.get("from", ""))
    context = {**list_context(request, chosen), "start": start}
    if chosen.tab == "queue":
        queue = review_queue(chosen, now, request.user.pk)
        named = _number(request.GET.get("rule", ""))
        queue.sort(key=lambda pk: pk != named)  # a link may name the card to begin with
        shown = queue[start : start + CARDS]
        context |= {"cards": rule_cards(shown, user=request.user, now=now), "total": len(queue)}
        context |= {"next": start + CARDS if start + CARDS < len(queue) else None}
    else:
        sort = request.GET.get("sort", "")
        sort = sort if sort in SORTS else "newest"
        page = library_page(chosen, sort=sort, start=start, now=now)
        context |= {"page": page, "total": page.total, "sort": sort, "sorts": SORTS, "next": page.next}
    if can(request.user, Role.REVIEWER):
        done = last_act(request.user, now)
        context |= {"done": done, "done_said": said(done) if done else ""}
    return render(request, "review/rules.html", context)


@never_cache
@require_safe
def rule_cards_more(request: SiteRequest) -> HttpResponse:
    """The next cards of the queue as a fragment, without those that the page holds (`not`: numbers, by commas)."""
    now = timezone.now()
    chosen = filter_of(request)
    here = {int(text) for text in request.GET.get("not", "")[:4000].split(",") if text.isdecimal()}
    queue = [pk for pk in review_queue(chosen, now, request.user.pk) if pk not in here]
    cards = rule_cards(queue[:CARDS], user=request.user, now=now)
    return render(request, "review/_cards.html", {"cards": cards, **act_context(request, chosen)})


@never_cache
@require_safe
def rule_detail(request: SiteRequest, rule_id: int) -> HttpResponse:
    """One rule: words and their history, evidence, uses, acts."""
    rule = get_object_or_404(Rule.objects.select_related("merged_into"), pk=rule_id, current__isnull=False)
    start = _number(request.GET.get("from", ""))
    merged = list(rule.merged.select_related("current").order_by("pk"))
    hits = hits_of([rule.pk, *(other.pk for other in merged)])
    (card,) = rule_cards([rule.pk], user=request.user, now=timezone.now())
    context = {
        "card": card,
        "rule": card.rule,
        "wordings": wordings_of(rule),
        "deeds": deeds_of(rule),
        "hits": hits[rule.pk],
        "uses": uses_of(rule.pk),
        "seen": sightings_of(rule.pk, SIGHTINGS, start),
        "start": start,
        "next": start + SIGHTINGS if start + SIGHTINGS < card.evidence.sightings else None,
        "merged": [(other, hits[other.pk]) for other in merged],
        **act_context(request, RuleFilter(), back=reverse("rule-detail", args=[rule.pk])),
    }
    return render(request, "review/rule_detail.html", context)


def list_context(request: SiteRequest, chosen: RuleFilter) -> dict[str, Any]:
    """What every list of rules needs beside its rows."""
    return {
        "chosen": chosen,
        "tabs": _tabs(chosen),
        "origins": Rule.Origin.choices,
        "scopes": SCOPES,
        "exports": EXPORTS,
        "bulk_acts": [act for act, states in FROM.items() if _fits(chosen.tab, states)],
        **act_context(request, chosen),
    }


def act_context(request: SiteRequest, chosen: RuleFilter, back: str = "") -> dict[str, Any]:
    """What the forms of a card need: reasons, what the person may do, and the page to show afterwards: `back`, else
    the list of this filter."""
    query = query_of(chosen)
    return {
        "reasons": REASONS,
        "back": back or reverse("rule-list") + (f"?{query}" if query else ""),
        "query": query,
        "reviewer": can(request.user, Role.REVIEWER),
        "writer": can(request.user, Role.REVIEWER) or can(request.user, Role.OPERATOR),
    }


def filter_of(request: SiteRequest, data: Any = None) -> RuleFilter:
    """The filter of a query string, or of a form's fields. Nonsense narrows nothing."""
    given = request.GET if data is None else data
    tab = given.get("tab", "")
    return RuleFilter(
        tab=tab if tab in TABS else "queue",
        q=given.get("q", "").strip()[:80],
        origin=given.get("origin", "")[:10],
        scope=given.get("scope", "")[:10],
        least=_number(given.get("least", "")),
        flagged=given.get("flagged", "") == "1",
        adapt=_number(given.get("adapt", "")),
    )


def _tabs(chosen: RuleFilter) -> list[tuple[str, str, bool]]:
    names = {"queue": "Queue", "library": "Library", "closed": "Rejected, retired, merged"}
    return [(tab, name, tab == chosen.tab) for tab, name in names.items()]


def _fits(tab: str, states: tuple[str, ...]) -> bool:
    wanted = {"queue": {"proposed"}, "library": {"approved"}, "closed": {"rejected", "retired"}}[tab]
    return bool(wanted & {str(state) for state in states})


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
