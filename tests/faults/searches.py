"""The searches of a storm: the same problem for all, each with limits of its own kind."""

from __future__ import annotations

from decimal import Decimal

from django.db import transaction

from judge.devices.models import Device
from judge.problems.models import Problem
from search.engine.budgets import limits_keep
from search.ledger.limits import RunLimits
from search.records.models import Run
from search.records.queue import FollowUp, send
from search.runs.services import run_start
from tests.search.makers import make_problem

STEP_TOKENS = 1100  # the most that one call of the scripted proposer uses


def problem() -> Problem:
    """A problem that the interpreter has admitted, without a preflight."""
    return make_problem("storm")


def start(*, place: int, steps: int, concurrency: int = 8) -> int:
    """Start the search number `place` of a storm: three of four are bound by something other than steps."""
    device, limits = Device.objects.get(name="interpreter"), limits_number(place, steps)
    given = {"problem": problem(), "device": device, "proposer": "scripted", "concurrency": concurrency}
    with transaction.atomic():  # nobody sees the run before it has its limits
        run = run_start(**given, steps=limits.steps, seed=place)
        limits_give(run, limits)
    send([FollowUp("advance", run.pk)])
    return int(run.pk)


def limits_give(run: Run, limits: RunLimits) -> None:
    """Limits for a run that has not begun. `run_start` holds them for proposers that somebody bills for."""
    limits_keep(run, limits)
    Run.objects.filter(pk=run.pk, event_seq=1).update(limits=run.limits)


def limits_number(place: int, steps: int) -> RunLimits:
    """About `steps` steps, bound by one kind of limit after the other."""
    tokens, price = STEP_TOKENS, Decimal("0.011")
    return [
        RunLimits(steps=steps),
        RunLimits(steps=10 * steps, evaluations=steps // 2),
        RunLimits(steps=10 * steps, tokens=steps * tokens // 2, step_tokens=tokens),
        RunLimits(steps=10 * steps, usd=price * steps / 2, step_usd=price, device_s=3600),
    ][place % 4]
