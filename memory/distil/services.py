"""Learns from one failure once: its lesson joins a rule, or it is noted why there is none."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from memory.adapt.models import AdaptTask
from memory.distil.distillers import DistilLater, Distiller, Facts, Lesson
from memory.failures.models import Failure
from memory.rules.models import Rule
from memory.rules.services import rule_join, rules_locked

log = logging.getLogger(__name__)

_TRITON = re.compile(r"\btriton (\d+(?:\.\d+)+)")
_TORCH = re.compile(r"\btorch (\d[\w.+]*)")


@dataclass(frozen=True)
class Learned:
    """What came of one failure; `rule` where it taught."""

    lesson: Lesson
    rule: Rule | None = None


Charged = Callable[[int, Mapping[str, Any]], None]  # an adapt run's number and the call it paid for


def _nobody(adapt_id: int, call: Mapping[str, Any]) -> None:
    """The table of known errors bills nothing."""


def failure_learn(*, failure_id: int, distiller: Distiller, charged: Charged = _nobody) -> Learned | None:
    """Distil a failure that was not distilled yet. None when it is gone, learned from already, or is left for later.

    The distiller is asked outside of any transaction: a model may take minutes. Of two workers at once one is heard;
    both their calls are charged to the adapt run, which `charged` hears of in the same transaction.
    """
    waiting = Failure.objects.filter(pk=failure_id, lesson=Failure.Lesson.NONE)
    failure = waiting.select_related("node__evaluation", "device").first()
    if failure is None:
        return None
    try:
        lesson = distiller.distil(facts_of(failure))
    except DistilLater as error:
        log.warning("failure %s is left for later: %s", failure_id, error)
        return None
    with rules_locked():  # before the failure's row: people lock in this order, too
        if lesson.call is not None:
            _charge(failure, lesson.call, charged)
        if not waiting.update(lesson=lesson.outcome, lesson_why=lesson.why[:200]):
            return None
        rule = None
        if lesson.claim:
            rule = rule_join(
                failure=failure, claim=lesson.claim, pattern=lesson.pattern, origin=lesson.origin, scope=lesson.scope
            )
        return Learned(lesson, rule)


def _charge(failure: Failure, call: Mapping[str, Any], charged: Charged) -> None:
    """Write a model's call down at the task of the adapt run that the failure's search belongs to, if any."""
    mine = Q(run=failure.run_id) | Q(control=failure.run_id)
    task = AdaptTask.objects.select_for_update(of=("self",)).filter(mine).first()
    if task is not None:
        task.recipe = {**task.recipe, "lessons": [*task.recipe.get("lessons", ()), dict(call)]}
        task.save(update_fields=["recipe"])
        charged(task.adapt_id, call)


def facts_of(failure: Failure) -> Facts:
    """What a distiller is given. `failure` comes with its node, evaluation and device."""
    evaluation = failure.node.evaluation
    toolchain = evaluation.toolchain if evaluation is not None else ""
    triton, torch = _TRITON.search(toolchain), _TORCH.search(toolchain)
    return Facts(
        verdict=failure.verdict,
        stage=failure.stage,
        reason=failure.reason,
        message=failure.message,
        source=failure.node.source,
        triton=triton[1] if triton else "",
        arch=failure.device.arch,
        torch=torch[1] if torch else "",
    )
