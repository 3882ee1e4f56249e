"""Whether a run's reward has gone blind: too many correct kernels, of different speed, are worth the same most."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Max, Min, Q

from judge.values import Verdict
from search.algorithm.reward import HIGHEST
from search.records.models import Node, Run
from search.records.steering_state import params_in_force

WARN_ABOVE = 0.1  # of the correct nodes
_BLIND_TO_REWARD = ("independent", "chain")  # they never look at it


@dataclass(frozen=True)
class Saturation:
    """`top` of `correct` kernels share the highest reward, which all speedups from `cap` up get."""

    top: int
    correct: int
    cap: float = HIGHEST

    @property
    def percent(self) -> int:
        return round(100 * self.top / self.correct)


def saturation_of(run: Run) -> Saturation | None:
    """None unless more than a tenth share it and differ in speed. One aggregate query.

    The logarithmic reward is scaled by the best, so only equals of the best share its highest value.
    """
    params = params_in_force(run)
    if params.log or params.policy in _BLIND_TO_REWARD:
        return None
    capped = Q(evaluation__speedup__gte=HIGHEST)
    found = Node.objects.filter(run=run, state=Node.State.TOLD, evaluation__verdict=Verdict.PASS.value).aggregate(
        correct=Count("pk"),
        top=Count("pk", filter=capped),
        slowest=Min("evaluation__speedup", filter=capped),
        fastest=Max("evaluation__speedup", filter=capped),
    )
    if found["top"] <= WARN_ABOVE * found["correct"] or found["slowest"] == found["fastest"]:
        return None
    return Saturation(found["top"], found["correct"])
