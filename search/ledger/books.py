"""A run's budget from its rows: what each node holds and has used, and whether new limits make sense."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, Exists, IntegerField, Max, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Ceil
from django.utils import timezone
from django.utils.translation import gettext as _

from adaexplore_site.core.audit import ActionRefused, FieldsRefused
from judge.devices.models import Device
from judge.evaluations.measures import Measure
from judge.evaluations.models import Evaluation, Measurement
from judge.problems.models import Problem
from judge.values import Subject
from search.ledger.limits import Amounts, BadLimit, Entry, Ledger, Progress, RunLimits, Stop, budget_stop, goal_stop
from search.ledger.models import Spending
from search.ledger.prices import STEP_TOKENS_IN, STEP_TOKENS_OUT, BadPrices, Price, price_of
from search.ledger.spending import (
    CALL_SUMS,
    FREE_MODELS,
    NOTHING,
    UNPRICED,
    UNTOLD,
    Amount,
    billed_calls,
    calls_by_node,
    money,
)
from search.records.facts import standing_of
from search.records.models import Node, Proposal, Run

NEW_STEP = Amounts(steps=1, evaluations=1)  # held by nodes from before budgets
COUNTED = ("device_s", "tokens", "usd", "evaluations")  # limits that need the books and not only the rows' states


def limits_of(run: Run) -> RunLimits:
    """The run's limits as a value."""
    return RunLimits.from_json(run.limits, steps=run.steps)


def ledger_of(run_id: int) -> Ledger:
    """The run's books."""
    return books_of(run_id)[0]


def books_of(run_id: int) -> tuple[Ledger, Amount]:
    """The run's books and its billed calls as far as they are known, in at most five queries.

    Nodes in flight and those with unknown costs are read one by one, all others as sums.
    """
    nodes = Node.objects.filter(run_id=run_id).exclude(kind=Node.Kind.ROOT).order_by()
    unknown = Proposal.objects.filter(UNTOLD | UNPRICED, node=OuterRef("pk")).exclude(model__in=FREE_MODELS)
    apart = Q(state__in=Node.IN_FLIGHT) | Exists(unknown)
    rows = list(nodes.filter(apart).values_list(*_COLUMNS))
    calls = calls_by_node(run_id, [row[0] for row in rows])
    (every, largest), known = _all_calls(run_id), sum(calls.values(), NOTHING)
    rest = Amounts(tokens=every.tokens - known.tokens, usd=every.usd - known.usd)
    judged, longest = _judged(nodes.exclude(apart))
    ledger = Ledger.of(_entry(row, calls.get(row[0], NOTHING)) for row in rows)
    return ledger.joined(judged + rest + _stopped(run_id), longest.largest(largest)), every


_COLUMNS = ("pk", "state", "held", "reused", "evaluation_id", "evaluation__wall_ms")
_MS = Ceil("evaluation__wall_ms", output_field=IntegerField())
_JUDGED = Q(evaluation__isnull=False, reused=False)


def _entry(row: tuple[Any, ...], known: Amount) -> Entry:
    """One node; a withdrawn one keeps what its calls have used."""
    _, state, held, reused, evaluation, wall_ms = row
    judged = evaluation is not None and not reused
    return Entry(
        open=state in Node.IN_FLIGHT,
        held=Amounts.from_json(held) if held else NEW_STEP,
        used=Amounts(
            steps=int(state == Node.State.COMPLETED),
            evaluations=int(judged),
            device_ms=math.ceil(wall_ms) if judged else 0,
            tokens=known.tokens,
            usd=known.usd,
        ),
        tokens_unknown=known.untold > 0,
        usd_unknown=known.unpriced > 0,
    )


def _stopped(run_id: int) -> Amounts:
    """The device time of evaluations that were stopped: no row of a node holds it."""
    found = Spending.objects.filter(run=run_id, kind=Spending.Kind.STOPPED).aggregate(ms=Sum("device_ms", default=0.0))
    return Amounts(device_ms=math.ceil(found["ms"]))


def _all_calls(run_id: int) -> tuple[Amount, Amounts]:
    """All billed calls of the run together, and the most that one node's calls have used. One query."""
    sums = {f"every_{name}": Sum(f"sum_{name}", default=0) for name in CALL_SUMS}
    found = billed_calls(run_id).aggregate(**sums, most_tokens=Max("tokens", default=0), most_usd=Max("sum_usd"))
    every = Amount(**{name: found[f"every_{name}"] for name in CALL_SUMS} | {"usd": money(found["every_usd"])})
    return every, Amounts(tokens=found["most_tokens"], usd=money(found["most_usd"] or 0))


def _judged(nodes: QuerySet[Node]) -> tuple[Amounts, Amounts]:
    """Steps, evaluations and device time of ended nodes: (sum, largest of one)."""
    found = nodes.aggregate(
        steps=Count("pk", filter=Q(state=Node.State.COMPLETED)),
        evaluations=Count("pk", filter=_JUDGED),
        device_ms=Sum(_MS, filter=_JUDGED, default=0),
        longest_ms=Max(_MS, filter=_JUDGED, default=0),
    )
    longest = Amounts(device_ms=found.pop("longest_ms"))
    return Amounts(**found), longest


def stop_of(run: Run, now: datetime) -> Stop | None:
    """Why no step of this run may begin any more: a goal that is reached, or a hard limit without room; else None."""
    limits = limits_of(run)
    return goal_reached(run, limits, now) or budget_stop(limits, books(run, limits))


def goal_reached(run: Run, limits: RunLimits, now: datetime) -> Stop | None:
    """The first goal that is reached. Asks for the best only where a goal needs it."""
    goals = (limits.target_speedup, limits.stale_steps, limits.roofline_share)
    progress = progress_of(run) if any(goal is not None for goal in goals) else Progress(completed=0)
    return goal_stop(limits, progress, started=run.created_at, now=now)


def books(run: Run, limits: RunLimits) -> Ledger:
    """The ledger; where nothing but steps is limited, two counts instead of all rows."""
    if any(getattr(limits, name) is not None for name in COUNTED):
        return ledger_of(run.pk)
    nodes = Node.objects.filter(run=run).exclude(kind=Node.Kind.ROOT)
    completed = Count("pk", filter=Q(state=Node.State.COMPLETED))
    counts = nodes.aggregate(completed=completed, open=Count("pk", filter=Q(state__in=Node.IN_FLIGHT)))
    return Ledger(spent=Amounts(steps=counts["completed"]), reserved=Amounts(steps=counts["open"]))


def progress_of(run: Run) -> Progress:
    """Completed steps and the audited best. One that did not beat PyTorch, the closest so far, reaches no goal."""
    completed = Node.objects.filter(run=run).completed().count()
    standing = standing_of(run.pk)
    if standing.leader is None:
        return Progress(completed)
    best = Node.objects.with_verdicts().get(run=run, number=standing.leader)
    assert best.evaluation is not None  # it may be a best
    if standing.best is None:
        return Progress(completed, best_order=best.told_order)
    return Progress(
        completed=completed,
        best_order=best.told_order,
        best_speedup=best.evaluation.speedup,
        bound_share=bound_share(run, best.evaluation),
        best_words=measure.whole if (measure := Measure.of(best.evaluation)) else "",
    )


def bound_us(run: Run) -> float | None:
    """The least time the problem can take on the run's device, as its preflight found it; None when not known."""
    report = run.problem.report_for(run.device.name) or {}
    bound = (report.get("roofline") or {}).get("bound_us")
    return float(bound) if bound else None


def bound_share(run: Run, evaluation: Evaluation) -> float | None:
    """The bound over the candidate's median time: 1 is all that the device allows."""
    bound = bound_us(run)
    timed = Measurement.objects.filter(evaluation=evaluation, subject=Subject.CANDIDATE.value)
    median_us = timed.values_list("median_us", flat=True).first()
    return bound / median_us if bound and median_us else None


BILLED = "openai"  # the only billed proposer


def limits_checked(
    *,
    problem: Problem,
    device: Device,
    proposer: str,
    options: Mapping[str, Any],
    steps: int,
    limits: Mapping[str, Any],
) -> RunLimits:
    """The limits as a value, what a step holds filled in. Raises ActionRefused with what to change."""
    given = {name: value for name, value in limits.items() if value not in (None, "")}
    if not given:
        return RunLimits(steps=steps)
    check_use(proposer, given)
    given.setdefault("step_device_s", device.limits.wall_s)
    tokens = step_tokens(options)
    given.setdefault("step_tokens", sum(tokens))
    if "usd" in given:
        price = price_for(options)
        given.setdefault("step_usd", str(max(price.usd(*tokens), Decimal("0.000001"))))
    if "roofline_share" in given:
        _check_bound(problem, device)
    try:
        return RunLimits.from_json(given, steps=steps)
    except BadLimit as error:
        raise FieldsRefused({error.name: str(error)}) from error


def check_use(proposer: str, given: Mapping[str, Any]) -> None:
    """Raise ActionRefused for a limit of what the proposer never uses."""
    if proposer != BILLED:
        if "usd" in given:
            raise FieldsRefused(
                {
                    "usd": _("The proposer %(proposer)r costs no money: leave the limit of money empty.")
                    % {"proposer": proposer}
                }
            )
        if "tokens" in given:
            raise FieldsRefused(
                {
                    "tokens": _("The proposer %(proposer)r uses no tokens: leave the limit of tokens empty.")
                    % {"proposer": proposer}
                }
            )


def step_tokens(options: Mapping[str, Any]) -> tuple[int, int]:
    """(in, out) of one step at most; a run that bounds its replies bounds both of its calls."""
    longest = options.get("max_completion_tokens") or options.get("max_tokens")
    return STEP_TOKENS_IN, 2 * int(longest) if longest else STEP_TOKENS_OUT


def price_for(options: Mapping[str, Any]) -> Price:
    """Today's price of the configured model. Raises ActionRefused where none is known."""
    model = str(options.get("model") or "")
    try:
        price = price_of(model=model, on=timezone.now().date())
    except BadPrices as error:
        raise ActionRefused(str(error)) from error
    if price is None:
        why = (
            f"No price is known for {model or 'the configured model'}, so a limit of money cannot be held. Leave it "
            "empty, or set a price on the page Spend or in the file that LLM_PRICES names."
        )
        raise FieldsRefused({"usd": why})
    return price


def _check_bound(problem: Problem, device: Device) -> None:
    report = problem.report_for(device.name) or {}
    if not (report.get("roofline") or {}).get("bound_us"):
        why = (
            f"The preflight of {problem.title} on {device.name} found no time bound, so there is no roofline to "
            "reach a share of. Leave that goal empty."
        )
        raise FieldsRefused({"roofline_share": why})
