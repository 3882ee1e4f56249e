"""The budget of a whole adapt run: what it has used, and what its next searches may use at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import F, Q, QuerySet, Sum

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.text import clip
from judge.devices.models import Device
from judge.problems.preflight import preflight
from judge.problems.services import PREFLIGHT_LIMITS
from memory.adapt.models import AdaptRun, AdaptTask
from search.batches.composers import MODEL
from search.ledger.books import check_use, price_for, step_tokens
from search.ledger.limits import RunLimits
from search.ledger.models import Spending
from search.ledger.spending import MICRO
from search.records.models import Run

NAMES = ("tokens", "usd", "device_s", "wall_s")
BILLED_FOR = {"tokens", "usd"}  # limits of what a call uses
WORDS = {"tokens": "tokens", "usd": "money", "device_s": "device seconds", "wall_s": "wall-clock seconds"}


class NoPrice(ActionRefused):
    """A run limits its money, and its model has no known price any more."""


@dataclass(frozen=True)
class Spent:
    """What searches, preflights, composing and lessons of a model have used.

    `preflight_s` is part of `device_s`. What is not known is counted: `unpriced` calls have no known price, `untold`
    ones no known tokens, `unclocked` preflights no known time.
    """

    tokens: int = 0
    usd: Decimal = Decimal(0)
    device_s: float = 0.0
    calls: int = 0
    unpriced: int = 0
    untold: int = 0
    preflight_s: float = 0.0
    unclocked: int = 0


def limits_of_adapt(
    given: Mapping[str, Any], *, device: Device, proposer: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The limits as stored. Raises ActionRefused for one that is unknown, out of range or too small for one step."""
    limits = {name: value for name, value in given.items() if value not in (None, "")}
    unknown = sorted(set(limits) - set(NAMES))
    if unknown:
        raise ActionRefused(f"An adapt run has no limit {unknown[0]!r}. Choose from: {', '.join(NAMES)}.")
    check_use(proposer, limits)
    try:
        plain = RunLimits.from_json({**limits, **_held_for_step(limits, device, options)}, steps=1).to_json()
    except ValueError as error:
        raise ActionRefused(str(error)) from error
    longest_s = PREFLIGHT_LIMITS.wall_s
    if "device_s" in limits and plain["device_s"] < longest_s:
        raise ActionRefused(
            f"The limit of device seconds ({plain['device_s']:g}) is below what is held for the preflight of one task "
            f"({longest_s:g}). Raise the limit or leave it out."
        )
    return {name: plain[name] for name in limits}


def _held_for_step(limits: Mapping[str, Any], device: Device, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a search holds for one step."""
    held: dict[str, Any] = {}
    if "device_s" in limits:
        held["step_device_s"] = device.limits.wall_s
    if "tokens" in limits:
        held["step_tokens"] = sum(step_tokens(options))
    if "usd" in limits:
        held["step_usd"] = max(price_for(options).usd(*step_tokens(options)), MICRO)
    return held


def _held_by(adapt: AdaptRun) -> dict[str, Decimal]:
    """The same of an adapt run, by name of the limit. Raises NoPrice with what to do."""
    try:
        held = _held_for_step(adapt.limits, adapt.device, adapt.proposer_options)
    except ActionRefused as error:
        model = str(adapt.proposer_options.get("model") or "its model")
        raise NoPrice(
            f"Its money is limited, and {clip(model, 60)} has no known price any more. Set a price on the page Spend, "
            "or correct the file of LLM_PRICES, then resume."
        ) from error
    return {name.removeprefix("step_"): Decimal(str(value)) for name, value in held.items()}


def spent_of(adapt: AdaptRun) -> Spent:
    """All that was used so far: what its searches and its own calls have booked, and the preflights of its tasks."""
    booked = _booked(Spending.objects.filter(Q(run__in=_searches(adapt)) | Q(adapt=adapt)))
    tasks = adapt.entries.exclude(recipe={}).values_list("recipe", "state")
    preflights = [preflights_of(recipe, state) for recipe, state in tasks]
    preflight_s = sum(seconds for seconds, _ in preflights)
    return Spent(
        tokens=booked["tokens"],
        usd=booked["usd"],
        device_s=float(booked["device_s"]) + preflight_s,
        calls=booked["calls"],
        unpriced=booked["unpriced"],
        untold=booked["untold"],
        preflight_s=preflight_s,
        unclocked=sum(unknown for _, unknown in preflights),
    )


def _searches(adapt: AdaptRun) -> QuerySet[Run]:
    return Run.objects.filter(Q(adapt_task__adapt=adapt) | Q(adapt_control__adapt=adapt))


def _booked(rows: QuerySet[Spending]) -> dict[str, Any]:
    """Sums over rows of the ledger; what people judge again is not the adapt run's."""
    sums = {name: Sum(name, default=0) for name in ("usd", "calls", "unpriced", "untold", "device_ms")}
    found = rows.exclude(kind=Spending.Kind.RECHECK).aggregate(
        tokens=Sum(F("tokens_in") + F("tokens_out"), default=0), **sums
    )
    device_s = Decimal(str(found.pop("device_ms"))) / 1000
    usd = Decimal(f"{Decimal(found['usd']).normalize():f}")  # the same digits from every database
    return {**found, "usd": usd, "device_s": device_s}


def preflights_of(recipe: Mapping[str, Any], state: str) -> tuple[float, int]:
    """Seconds of a task's preflights here, and how many have no known time: their process died, or none was kept."""
    kept = recipe.get("preflight")
    if kept is None:
        return 0.0, int(state == AdaptTask.State.STARTED or "graph" in recipe)
    running = state == AdaptTask.State.WAITING and "graph" not in recipe and kept["begun"] > kept["timed"]
    return kept["s"], kept["begun"] - kept["timed"] - int(running)


def share_of(adapt: AdaptRun, *, searches: int, now: datetime, writing: bool = True) -> dict[str, Any] | None:
    """Limits of each of the next `searches`, as run_start takes them; None when the budget has no room for them.

    What open searches hold is held, and what tasks being written do, but for `writing` False; an ended search counts
    with what it has used.
    """
    if not adapt.limits:
        return {}
    left, held = room_of(adapt, now, writing=writing), _held_by(adapt)
    share: dict[str, Any] = {}
    for name, amount in left.items():
        part = amount if name == "wall_s" else amount / searches
        if part < held.get(name, 1):
            return None
        share[name] = int(part) if name == "tokens" else str(part) if name == "usd" else float(part)
    return share


def may_ask(adapt: AdaptRun, now: datetime) -> bool:
    """Whether the limits have room for one more call of a model."""
    left, held = room_of(adapt, now), _held_by(adapt)
    return all(left[name] >= held[name] for name in BILLED_FOR & left.keys())


def may_admit(adapt: AdaptRun, now: datetime, *, writing: bool = True) -> bool:
    """Whether the limits have room for one more preflight and a step of each search that it is for."""
    if "device_s" not in adapt.limits:
        return True
    searches = (2 if adapt.control_steps else 1) * adapt.device.limits.wall_s
    needed = Decimal(str(PREFLIGHT_LIMITS.wall_s + searches))
    return room_of(adapt, now, writing=writing)["device_s"] >= needed


def room_of(adapt: AdaptRun, now: datetime, *, writing: bool = True) -> dict[str, Decimal]:
    """What is neither used nor held, by name of the limit; below zero where calls cost more than was held for them.

    Held is what open searches may use yet, and (`writing`) a call for each task that a model is asked for and the
    longest time of each preflight that was asked for.
    """
    spent = spent_of(adapt)
    used = {
        "tokens": Decimal(spent.tokens),
        "usd": spent.usd,
        "device_s": Decimal(str(spent.device_s)),
        "wall_s": Decimal(str((now - adapt.created_at).total_seconds())),
    }
    left = {name: Decimal(str(limit)) - used[name] for name, limit in adapt.limits.items()}
    for run in _searches(adapt).exclude(state__in=Run.ENDED):
        own = _booked(Spending.objects.filter(run=run))
        for name in left.keys() & run.limits.keys() - {"wall_s"}:
            left[name] -= max(Decimal(str(run.limits[name])) - own[name], Decimal(0))
    if writing and adapt.composer == MODEL:
        calls = adapt.entries.filter(state=AdaptTask.State.WAITING, problem=None).count()
        held = _held_by(adapt)
        for name in left.keys() & BILLED_FOR:
            left[name] -= calls * held[name]
    if writing and "device_s" in left:
        left["device_s"] -= _admitting(adapt, now) * Decimal(str(PREFLIGHT_LIMITS.wall_s))
    return left


def _admitting(adapt: AdaptRun, now: datetime) -> int:
    """Preflights that were asked for and are not decided."""
    asked = adapt.entries.filter(state=AdaptTask.State.WAITING, asked_at__isnull=False, recipe__graph__isnull=True)
    tasks = asked.filter(problem__isnull=False).select_related("problem")
    return sum(not preflight(task.problem, adapt.device, now=now).decided for task in tasks if task.problem)
