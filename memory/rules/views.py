"""Rules on pages: the review queue and its cards, the library, one rule, decisions on many, files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from adaexplore_site.actions import registry
from adaexplore_site.actions.views import done, submit
from adaexplore_site.core.access import Role, can, role_required
from adaexplore_site.core.audit import NOTHING, ActionRefused
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.requests import SiteRequest, came_from
from judge.devices.models import Device
from memory.prompting.places import Reach, families_at, recent_nodes, triton_on
from memory.prompting.scopes import NAMES, Scope
from memory.rules.files import EXPORTS, export_note, rules_text
from memory.rules.models import REASONS, STATES, Rule, RuleVersion, Sighting
from memory.rules.queries import (
    SORTS,
    TYPED,
    RuleFilter,
    RuleRow,
    batch_of,
    bulk_in,
    history_of,
    hits_of,
    last_action,
    library_page,
    likeness_now,
    query_of,
    review_queue,
    review_rows,
    rule_ids,
    rule_rows,
    rules_filtered,
    said,
    uses_of,
    versions_of,
    whole,
)
from memory.rules.services import RuleChanged, rule_hold
from memory.rules.wording import Likeness, Piece, changes

CARDS = 6  # the one to decide and the next five
SIGHTINGS = 50
EXAMPLES = 10  # of a preview
SEEN = 4  # sightings shown on a card
EXCERPT = 240
TAB_NAMES = {"queue": _("Queue"), "library": _("Library"), "closed": _("Rejected, retired, merged")}
SCOPES = {
    "any": _("anywhere"), "family": _("bound to a family"), "arch": _("bound to a GPU"), "triton": _("bound to Triton"),
}  # fmt: skip

BULK_LABELS = {  # of the button, and of how many rules it would decide
    "approve": (_("Approve"), ngettext_lazy("%(n)d rule to approve", "%(n)d rules to approve", "n")),
    "reject": (_("Reject"), ngettext_lazy("%(n)d rule to reject", "%(n)d rules to reject", "n")),
    "defer": (_("Defer"), ngettext_lazy("%(n)d rule to defer", "%(n)d rules to defer", "n")),
    "retire": (_("Retire"), ngettext_lazy("%(n)d rule to retire", "%(n)d rules to retire", "n")),
    "restore": (_("Restore"), ngettext_lazy("%(n)d rule to restore", "%(n)d rules to restore", "n")),
}


def _export_label(state: str) -> str:
    if state == "living":
        return gettext("Export proposed and approved")
    return gettext("Export %(state)s") % {"state": STATES[state].label}


def context(request: HttpRequest) -> dict[str, object]:
    """Template context: `open_reviews`, asked of the database only where a template prints it."""
    return {"open_reviews": SimpleLazyObject(lambda: review_rows(timezone.now()).count())}


@never_cache
@require_safe
def rule_list(request: SiteRequest) -> HttpResponse:
    """The review queue as cards, or decided rules as a table. Query: the filter, sort, from, rule."""
    now = timezone.now()
    chosen = RuleFilter.of(request.GET)
    start = whole(request.GET.get("from"))
    shown = {**list_context(request, chosen), "start": start}
    if chosen.tab == "queue":
        queue = review_queue(chosen, now, request.user.pk)
        named = whole(request.GET.get("rule"))
        queue.sort(key=lambda pk: pk != named)  # a link may name the card to begin with
        shown |= {"cards": rule_cards(queue[start : start + CARDS], user=request.user, now=now), "total": len(queue)}
        shown |= {"next": start + CARDS if start + CARDS < len(queue) else None}
    else:
        sort = sort if (sort := request.GET.get("sort", "")) in SORTS else "newest"
        page = library_page(chosen, sort=sort, start=start, now=now)
        shown |= {"page": page, "total": page.total, "sort": sort, "next": page.next}
    if can(request.user, Role.REVIEWER):
        last = last_action(request.user, now)
        shown |= {"done": last, "done_said": said(last) if last else ""}
    return render(request, "rules/rules.html", shown)


@never_cache
@require_safe
def rule_cards_more(request: SiteRequest) -> HttpResponse:
    """The next cards of the queue as a fragment, without those that the page holds (`not`: numbers, by commas)."""
    now = timezone.now()
    chosen = RuleFilter.of(request.GET)
    here = {int(text) for text in request.GET.get("not", "")[:4000].split(",") if text.isdecimal()}
    queue = [pk for pk in review_queue(chosen, now, request.user.pk) if pk not in here]
    cards = rule_cards(queue[:CARDS], user=request.user, now=now)
    return render(request, "rules/_cards.html", {"cards": cards, **act_context(request, chosen)})


@never_cache
@require_safe
def rule_detail(request: SiteRequest, rule_id: int) -> HttpResponse:
    """One rule: its versions, evidence, uses, history."""
    rule = get_object_or_404(Rule.objects.select_related("merged_into"), pk=rule_id, current__isnull=False)
    start = whole(request.GET.get("from"))
    merged = list(rule.merged.select_related("current").order_by("pk"))
    hits = hits_of([other.pk for other in merged])
    (card,) = rule_cards([rule.pk], user=request.user, now=timezone.now())
    shown = {
        "card": card,
        "rule": card.rule,
        "versions": versions_of(rule),
        "history": history_of(rule),
        "hits": card.hits,
        "uses": uses_of(rule.pk),
        "seen": sightings_of(rule.pk, SIGHTINGS, start),
        "start": start,
        "next": start + SIGHTINGS if start + SIGHTINGS < card.evidence.count else None,
        "merged": [(other, hits[other.pk]) for other in merged],
        **act_context(request, RuleFilter(), back=reverse("rule-detail", args=[rule.pk])),
    }
    return render(request, "rules/rule_detail.html", shown)


def list_context(request: SiteRequest, chosen: RuleFilter) -> dict[str, Any]:
    """What every list of rules needs beside its rows."""
    return {
        "chosen": chosen,
        "tabs": [(tab, name, tab == chosen.tab) for tab, name in TAB_NAMES.items()],
        "origins": Rule.Origin.choices,
        "scopes": SCOPES.items(),
        "exports": [(state, _export_label(state)) for state in EXPORTS],
        "bulk_acts": [(act, BULK_LABELS[act][0]) for act in bulk_in(chosen.tab)],
        **act_context(request, chosen),
    }


def act_context(request: SiteRequest, chosen: RuleFilter, back: str = "") -> dict[str, Any]:
    """What the forms of a card need: reasons, what the person may do, and the page to show afterwards: `back`, else
    the list of this filter."""
    query = query_of(chosen)
    reviewer = can(request.user, Role.REVIEWER)
    return {
        "reasons": REASONS,
        "back": back or reverse("rule-list") + (f"?{query}" if query else ""),
        "query": query,
        "reviewer": reviewer,
        "writer": reviewer or can(request.user, Role.OPERATOR),
    }


@role_required(Role.REVIEWER)
@require_POST
def rule_hold_card(request: SiteRequest, rule_id: int) -> JsonResponse:
    """Claim the card for a minute. The answer names who else has it, and the rule's revision."""
    rule = rule_hold(rule_id=rule_id, user=request.user, now=timezone.now())
    if rule is None:
        return JsonResponse({"gone": True})
    mine = rule.held_by_id == request.user.pk
    return JsonResponse(
        {"holder": "" if mine or not rule.held_by else rule.held_by.get_username(), "revision": rule.revision}
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def rule_new(request: SiteRequest) -> HttpResponseBase:
    """Propose a rule in one's own words. A refusal shows the reason and what was typed."""
    fields = request.POST if request.method == "POST" else request.GET
    typed = {name: fields.get(name, "")[:1000] for name in ("text", "family", "arch", "triton")}
    shown: dict[str, Any] = {"fields": typed, "writer": act_context(request, RuleFilter())["writer"]}
    if request.method != "POST":
        return render(request, "rules/rule_new.html", shown)
    action = registry.action("rule.create")
    try:
        return done(request, action, submit(request, action, {}))
    except ActionRefused as error:
        shown |= {"message": str(error), "see": error.see}
        return render(request, "rules/rule_new.html", shown, status=error.status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def rule_bulk(request: SiteRequest) -> HttpResponseBase:
    """GET: how many rules of the filter a decision fits, and which not. POST: do it, when they are still the same."""
    given = request.POST if request.method == "POST" else request.GET
    chosen, act = RuleFilter.of(given), given.get("act", "")[:10]
    if request.method != "POST":
        return _preview(request, chosen, act)
    action = registry.action("rules.bulk")
    try:
        return done(request, action, submit(request, action, {}))
    except ActionRefused as error:
        return _preview(request, chosen, act, error)


def _preview(request: SiteRequest, chosen: RuleFilter, act: str, error: ActionRefused | None = None) -> HttpResponse:
    shown = {**list_context(request, chosen), "act": act, "refused": str(error or "")}
    try:
        batch = batch_of(act, rule_ids(chosen, timezone.now())) if act else None
    except ActionRefused as unknown:
        batch, shown["refused"] = None, str(error or unknown)
    if batch is not None:
        shown |= {"batch": batch, "examples": batch.ready[:EXAMPLES], "left": batch.left[:EXAMPLES]}
        label, title = BULK_LABELS[act]
        shown |= {"bulk_label": label, "batch_title": title % {"n": len(batch.ready)}}
        shown |= {"typed": len(batch.ready) > TYPED, "needs_reason": act in ("reject", "retire")}
    return render(request, "rules/rule_bulk.html", shown, status=200 if error is None else error.status)


@never_cache
@require_safe
def rule_export(request: SiteRequest) -> HttpResponse:
    """Rules as a file, by `state`."""
    state = request.GET.get("state", "living")
    try:
        text = rules_text(state=state)
    except ActionRefused as error:
        refused = {"message": str(error), "back": reverse("rule-list")}
        return render(request, "actions/refused.html", refused, status=422)
    if request.method == "GET":
        export_note(state=state, count=text.count("\n"), user=request.user)
    headers = {
        "Content-Disposition": f'attachment; filename="rules-{state}.txt"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=headers)


def card_answer(
    request: SiteRequest, rule_id: int | None, entry: AuditEntry | None, error: ActionRefused | None
) -> HttpResponse | None:
    """What scripts of the review queue get after an action, and the page of a decision that came too late; None for a
    form. Without an entry nothing had to change. Without `rule_id` the action is on any rules."""
    if isinstance(error, RuleChanged):
        return _conflict(request, error.rule)
    if not getattr(request, "htmx", False):
        return None
    if error is not None:
        html = _card(request, rule_id, message=str(error), see=error.see) if rule_id else ""
        return JsonResponse({"refused": str(error), "card": html, "rule": rule_id}, status=error.status)
    now, others = timezone.now(), ""
    if entry is not None:
        rule_id, others = int(entry.object_id), "".join(_card(request, pk) for pk in _others(entry))
    rule_id = rule_id if rule_id and Rule.objects.filter(pk=rule_id).exists() else 0
    stays = rules_filtered(RuleFilter(), now).filter(pk=rule_id).exists()
    answer = {"act": entry.pk if entry else None, "said": said(entry) if entry else NOTHING, "others": others}
    card = _card(request, rule_id) if stays and rule_id else ""
    return JsonResponse({**answer, "open": review_rows(now).count(), "rule": rule_id, "card": card})


def _conflict(request: SiteRequest, rule: Rule) -> HttpResponse:
    """409: both versions side by side, and what was asked as a form to send again for the rule as it is now."""
    asked = request.POST
    seen = RuleVersion.objects.filter(pk=whole(asked.get("version"), 12), rule=rule).first()
    skip = ("csrfmiddlewaretoken", "key", "revision", "version")
    facts = {
        "rule": rule,
        "seen": seen,
        "asked": [(name, value) for name in asked if name not in skip for value in asked.getlist(name)],
        "act": asked.get("act", ""),
        "typed": asked.get("text", ""),
        "last": next(iter(history_of(rule, most=1)), None),
        "done": rule.info.result_of and rule.info.result_of == asked.get("act") and not rule.recheck,
    }
    if request.htmx:
        answer = {"refused": "", "card": _card(request, rule.pk, conflict=facts), "rule": rule.pk}
        return JsonResponse({**answer, "open": review_rows(timezone.now()).count()}, status=409)
    shown = {**act_context(request, RuleFilter(), back=came_from(request)), "conflict": facts}
    return render(request, "rules/rule_conflict.html", shown, status=409)


def _card(request: SiteRequest, rule_id: int, **extra: Any) -> str:
    """The card as the queue shows it now."""
    cards = rule_cards([rule_id], user=request.user, now=timezone.now())
    shown: Mapping[str, Any] = {"cards": cards, **act_context(request, RuleFilter(), back=came_from(request)), **extra}
    return render_to_string("rules/_cards.html", shown, request)


def _others(entry: AuditEntry) -> list[int]:
    """Further rules that an action, or what it undid, has changed: cards of them on the page are too old now."""
    first = AuditEntry.objects.filter(pk=entry.after["undoes"]).first() if "undoes" in entry.after else entry
    other = first.after.get("other") if first else None
    return [other["rule"]] if other else []


@dataclass(frozen=True)
class ScopeChoice:
    """One of the four scopes that a key sets. `why` says what is missing when it cannot be chosen."""

    key: str
    label: str
    scope: Scope | None
    why: str = ""
    now: bool = False


@dataclass
class RuleCard(RuleRow):
    """A rule and what bears on the decision."""

    wrong: str = ""  # what its text must not say
    seen: list[dict[str, Any]] = field(default_factory=list)
    near: list[Rule] = field(default_factory=list)
    against: list[Rule] = field(default_factory=list)
    scopes: list[ScopeChoice] = field(default_factory=list)
    reach: Reach = field(default_factory=Reach)
    active: RuleVersion | None = None  # the version that was last approved, when it is not the current one
    change: tuple[Piece, ...] = ()
    own: bool = False
    holder: str = ""

    @property
    def more(self) -> int:
        """Sightings that are not shown."""
        return self.evidence.count - len(self.seen)


def rule_cards(rule_ids: Sequence[int], *, user: Any, now: datetime) -> list[RuleCard]:
    """Cards in the order given. The number of queries grows with the cards only, not with their sightings."""
    index = likeness_now()
    cards = [RuleCard(**vars(row)) for row in rule_rows(rule_ids, now, index)]
    wanted = [card.rule.pk for card in cards]
    recent, approved, places = recent_nodes(), _approved(wanted), _places(wanted)
    for card in cards:
        rule, version = card.rule, card.version
        card.wrong, card.own, card.holder = rule.fault, rule.written_by(user), _holder(rule, user, now)
        card.seen = sightings_of(rule.pk, SEEN)
        card.scopes, card.reach = _choices(card.scope, places[rule.pk]), recent.reach(card.scope)
        active = approved.get(rule.pk)
        if active is not None and active.pk != version.pk:
            card.active, card.change = active, changes(active.text, version.text)
    _surround(cards, index)
    return cards


def sightings_of(rule_id: int, most: int, offset: int = 0) -> list[dict[str, Any]]:
    """The newest failures that support a rule: where each was, its verdict, and an excerpt of its error."""
    names = {
        "run": "run_id", "number": "node__number", "problem": "problem__title", "device": "device__name",
        "verdict": "verdict", "message": "message", "at": "told_at",
    }  # fmt: skip
    rows = Sighting.objects.filter(rule=rule_id).order_by("-failure__told_at", "-failure_id")
    found: QuerySet[Sighting, Any] = rows.values(
        "failure", **{name: F(f"failure__{column}") for name, column in names.items()}
    )
    return [{**row, "excerpt": _excerpt(row["message"])} for row in found[offset : offset + most]]


def _excerpt(message: str) -> str:
    """The line that names the error: the last one that is not empty, as Python writes its errors; cut."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    named = [line for line in lines if "Error" in line or "error" in line]
    return (named or lines or [""])[-1 if named else 0][:EXCERPT]


def _holder(rule: Rule, user: Any, now: datetime) -> str:
    """Name of somebody else who holds the card now."""
    if rule.held_by is None or rule.held_until is None or rule.held_until <= now or rule.held_by_id == user.pk:
        return ""
    return str(rule.held_by.get_username())


def _surround(cards: Sequence[RuleCard], index: Likeness) -> None:
    """Name the rules that are like each card's, and those against it. One query for all cards."""
    near = {card.rule.pk: index.near(card.rule.pk) for card in cards if card.rule.pk in index.rules}
    against = {pk: index.against(pk) for pk in near}
    wanted = {pk for pairs in near.values() for pk, _ in pairs} | {pk for pks in against.values() for pk in pks}
    others = Rule.objects.select_related("current").in_bulk(wanted)
    for card in cards:
        pk = card.rule.pk
        card.near = [others[other] for other, _ in near.get(pk, ()) if other in others]
        card.against = [others[other] for other in against.get(pk, ()) if other in others]


@dataclass
class _Places:
    """Where the failures of a rule were."""

    families: set[frozenset[str]] = field(default_factory=set)  # of each problem
    archs: set[str] = field(default_factory=set)
    tritons: set[str] = field(default_factory=set)


def _places(wanted: Sequence[int]) -> dict[int, _Places]:
    rows = Sighting.objects.filter(rule__in=wanted).order_by()
    pairs = list(rows.values_list("rule_id", "failure__problem_id", "failure__device_id").distinct())
    devices = Device.objects.in_bulk({pair[2] for pair in pairs})
    tritons = {pk: ".".join(triton_on(device).split(".")[:2]) for pk, device in devices.items()}
    families = families_at({pair[1] for pair in pairs})
    found: dict[int, _Places] = defaultdict(_Places)
    for pk, problem_id, device_id in pairs:
        place = found[pk]
        place.families.add(families[problem_id])
        place.archs.add(devices[device_id].arch)
        place.tritons.add(tritons[device_id])
    return found


def _choices(scope: Scope, places: _Places) -> list[ScopeChoice]:
    shared = frozenset.intersection(*places.families) if places.families else frozenset()
    family = next((name for name in NAMES if name in shared), "")  # the most telling one comes first there
    arch, triton = _only(places.archs), _only(places.tritons)
    made = [
        (gettext("anywhere"), "", Scope(), ""),
        (
            gettext("operator family"), family, Scope(family=family) if family else None,
            gettext("Its sightings do not share one operator family."),
        ),
        (
            gettext("GPU architecture"), arch, Scope(arch=arch) if arch else None,
            gettext("Its sightings do not share one GPU architecture."),
        ),
        (
            gettext("Triton version"), triton, Scope(triton=_range(triton)) if triton else None,
            gettext("Its sightings do not share one Triton version."),
        ),
    ]  # fmt: skip
    return [
        ScopeChoice(str(key), f"{name} {value}".strip(), choice, "" if choice else why, now=choice == scope)
        for key, (name, value, choice, why) in enumerate(made, start=1)
    ]


def _only(values: set[str]) -> str:
    return next(iter(values)) if len(values) == 1 else ""


def _range(triton: str) -> str:
    """ "3.7" is the range of its patches."""
    major, _, minor = triton.partition(".")
    return f">={major}.{minor},<{major}.{int(minor) + 1}" if minor.isdecimal() else f"=={triton}"


def _approved(wanted: Sequence[int]) -> dict[int, RuleVersion]:
    """The version of each rule that was current when it was last approved."""
    rows = AuditEntry.objects.filter(verb="rule.approve", object_type="rule", object_id__in=[str(pk) for pk in wanted])
    last = {int(row.object_id): row.after["current"] for row in rows.order_by("pk")}
    versions = RuleVersion.objects.in_bulk(last.values())
    return {pk: versions[number] for pk, number in last.items() if number in versions}
