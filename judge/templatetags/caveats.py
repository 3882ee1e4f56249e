"""What a reader must know about the speedups of a page: the one place where pages say it."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils import timezone

from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from judge.selftest.trust import Tested, doubt_about

register = template.Library()


@register.inclusion_tag("evaluations/_caveats.html")
def caveats(
    *,
    problem: Problem | None = None,
    device: Device | None = None,
    evaluation: Evaluation | None = None,
    tested: Tested | None = None,
) -> dict[str, Any]:
    """`{% caveats problem=run.problem device=run.device %}`: of speedups on the problem and on the device, or of the
    one of an evaluation that was judged here. `tested` is the device's self-test, where the page has read it."""
    if evaluation and evaluation.speedup is not None and not evaluation.elsewhere:
        device = evaluation.device
    return {"problem": problem, "doubt": doubt_about(device, now=timezone.now(), tested=tested) if device else None}
