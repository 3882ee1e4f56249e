"""One rule with everything that bears on a decision: its sightings, similar rules, scopes to choose from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from memory.prompting.places import Reach, families_at, recent_nodes, triton_on
from memory.prompting.scopes import NAMES, Scope
from memory.rules.models import Rule, RuleVersion, Sighting
from memory.rules.queries import RuleRow, likeness_now, rule_rows
from memory.rules.wording import Likeness, Piece, changes

SEEN = 4  # sightings shown on a card
EXCERPT = 240


@dataclass(frozen=True)
class Seen:
    """A failure that supports a rule, as a link and an excerpt of its error."""

    failure: int
    run: int
    number: int
    problem: str
    device: str
    verdict: str
    excerpt: str
    at: datetime


@dataclass(frozen=True)
class ScopeChoice:
    """One of the four scopes that a key sets. `why` says what is missing when it cannot be chosen."""

    key: str
    label: str
    scope: Scope | None
    why: str = ""
    now: bool = False


@dataclass(frozen=True)
class Other:
    """Another rule that matters for this one."""

    id: int
    text: str
    state: str
    like: float = 0.0


@dataclass
class RuleCard(RuleRow):
    """A rule and what bears on the decision."""

    wrong: str = ""  # what its text must not say
    seen: list[Seen] = field(default_factory=list)
    near: list[Other] = field(default_factory=list)
    against: list[Other] = field(default_factory=list)
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


def sightings_of(rule_id: int, most: int, offset: int = 0) -> list[Seen]:
    """The newest failures that support a rule."""
    columns = (
        "failure_id", "failure__run_id", "failure__node__number", "failure__problem__title", "failure__device__name",
        "failure__verdict", "failure__message", "failure__told_at",
    )  # fmt: skip
    rows = Sighting.objects.filter(rule=rule_id).order_by("-failure__told_at", "-failure_id").values_list(*columns)
    return [
        Seen(pk, run, number, problem, device, verdict, _excerpt(message), at)
        for pk, run, number, problem, device, verdict, message, at in rows[offset : offset + most]
    ]


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
    rows = Rule.objects.filter(pk__in=wanted).values_list("pk", "current__text", "state")
    others = {pk: (text, state) for pk, text, state in rows}
    for card in cards:
        pk = card.rule.pk
        card.near = [Other(other, *others[other], like) for other, like in near.get(pk, ()) if other in others]
        card.against = [Other(other, *others[other]) for other in against.get(pk, ()) if other in others]


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
        ("1", "anywhere", "", Scope()),
        ("2", "operator family", family, Scope(family=family) if family else None),
        ("3", "GPU architecture", arch, Scope(arch=arch) if arch else None),
        ("4", "Triton version", triton, Scope(triton=_range(triton)) if triton else None),
    ]
    return [
        ScopeChoice(key, f"{name} {value}".strip(), choice, now=choice == scope)
        if choice is not None
        else ScopeChoice(key, name, None, why=f"Its sightings do not share one {name}.")
        for key, name, value, choice in made
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
