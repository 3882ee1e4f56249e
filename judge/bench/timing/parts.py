"""Forward and backward apart, of a problem with gradients: forward is timed alone, backward is what both take more.

Both together decide; this only says in which part a kernel gains. Forward alone keeps what backward would need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from judge.bench.device.gpu_lock import GpuLock
from judge.bench.device.statistics import timing_of
from judge.bench.exchange.claims import Forwarded
from judge.bench.exchange.nested import cloned
from judge.bench.foreign.gradients import forward_alone
from judge.bench.foreign.whereabouts import FORWARD
from judge.bench.interpreting.op_traffic import eager_traffic
from judge.bench.interpreting.targets import target as target_named
from judge.bench.interpreting.timemodel import kernel_time_us
from judge.bench.judging.asking import Question
from judge.bench.judging.correctness import Rounds
from judge.bench.judging.expected import expect
from judge.bench.subjects.watch import traffic_report
from judge.bench.timing.measured import Measurement, Runner
from judge.values import Basis, Finding, Gradients, Subject, Timing

SIDES = (Subject.CANDIDATE, Subject.EAGER)


class ForwardAlone(Measurement):
    """Times forward without backward, on contents as they are for both."""

    def contents(self) -> list[Any]:
        return forward_alone(super().contents())


def measured_parts(both: Measurement, sides: list[Runner], timings: list[Timing], lock: GpuLock) -> list[Finding]:
    """Time forward alone of candidate and eager, whose `timings` of both are known. Raises as `Measurement.run` does.

    Nothing where no gradients are asked for.
    """
    reference = both.reference
    if reference.policy.gradients is Gradients.NONE:
        return []
    limits = reference.gradients.forward_part(both.limits)
    alone = ForwardAlone(reference, limits, both.case, both.budget_s, both.rng)
    alone.family, alone.state, alone.gaps = both.family, both.state, both.gaps
    alone.by_chance, alone.drawn, alone.placing = both.by_chance, both.drawn, both.placing
    alone.run(sides, lock)
    found = [timing_of(name, side.samples_us, "") for name, side in zip(SIDES, sides, strict=True)]
    return [_finding(Basis.MEASURED, {one.subject: one.median_us for one in found}, timings)]


def modelled_parts(rounds: Rounds, first: Question, timings: list[Timing], target_name: str) -> list[Finding]:
    """The same by the time model: forward alone is asked once more and counted. Raises Ended and SubjectFailed."""
    reference = rounds.reference
    if reference.policy.gradients is Gradients.NONE:
        return []
    inputs = forward_alone(first.inputs)
    question = replace(first, inputs=inputs, expected=expect(reference, inputs, first.state, first.seed))
    slots = rounds.tell(question, count=True)
    reply = rounds.contact.answer(Forwarded)
    rounds.judge(question, reply, slots, "timing")
    reference.load(first.state)
    with reference.whereabouts.inside(FORWARD):
        eager = eager_traffic(reference.called_with, cloned(inputs))
    reports = zip(SIDES, (traffic_report(reply.traffic or ()), eager), strict=True)
    found = {name: kernel_time_us(report, target_named(target_name))[1] for name, report in reports}
    return [_finding(Basis.MODELLED, found, timings)]


def _finding(basis: Basis, forward_us: Mapping[Subject, float], timings: list[Timing]) -> Finding:
    """Microseconds of forward, backward and both of candidate and eager, by the medians."""
    both_us = {one.subject: one.median_us for one in timings}
    rows = {
        "forward": [forward_us[side] for side in SIDES],
        "backward": [both_us[side] - forward_us[side] for side in SIDES],
        "both": [both_us[side] for side in SIDES],
    }
    text = "; ".join(f"{name} {_said(*row)}" for name, row in rows.items())
    text = f"{text} ({basis.value}; forward timed alone, backward is the difference; both together decide)"
    return Finding("time.parts", text, {"basis": basis.value, **{f"{name}_us": row for name, row in rows.items()}})


def _said(candidate_us: float, eager_us: float) -> str:
    told = f", {eager_us / candidate_us:.2f}×" if min(candidate_us, eager_us) > 0 else ""
    return f"{candidate_us:.1f} µs beside {eager_us:.1f} in eager mode{told}"
