"""Time without a GPU: counted traffic through the time model. MODELLED, never measured."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from judge.bench.exchange.claims import Forwarded
from judge.bench.exchange.nested import cloned
from judge.bench.foreign.switches import neutral
from judge.bench.foreign.whereabouts import FORWARD
from judge.bench.interpreting.op_traffic import eager_traffic
from judge.bench.interpreting.targets import Target
from judge.bench.interpreting.targets import target as target_named
from judge.bench.interpreting.timemodel import kernel_time_us, modelled_speedup
from judge.bench.interpreting.traffic import TrafficReport
from judge.bench.judging.asking import Question
from judge.bench.judging.completion import Ended
from judge.bench.judging.reference import Reference
from judge.bench.subjects.watch import traffic_report
from judge.bench.timing.counted import check_counts, check_seen
from judge.bench.timing.stage import Measured
from judge.values import ALTERNATIVES, Baseline, Basis, Speedup, Subject, Timing, Verdict

METHOD = "traffic_model"


def fixed_seed(source: str) -> int:
    """Seed of the one draw whose traffic is counted: fixed, so that the same candidate always gets the same number.

    Every other round draws from the system's entropy.
    """
    return int(hashlib.sha256(source.encode()).hexdigest()[:8], 16)


def modelled(reference: Reference, asked: Question, answer: Forwarded, target_name: str) -> Measured:
    """Times of candidate and reference on the named GPU, with the model's range. `answer` has the counted launches.

    Raises Ended when nothing was counted, or too little to be true.
    """
    target = target_named(target_name)
    if answer.traffic is None:
        raise Ended(Verdict.DISHONEST, "timing", "tamper.channel", "the candidate did not say what it counted")
    candidate = traffic_report(answer.traffic)
    reference.load(asked.state)
    inputs = cloned(asked.inputs)
    with reference.whereabouts.inside(FORWARD):
        eager = eager_traffic(reference.called_with, inputs)
    if not candidate.kernels or not eager.kernels:
        raise Ended(
            Verdict.UNSUPPORTED, "timing", "time.nothing_launched", "no launch was counted, so no time can be modelled"
        )
    check_seen(answer, "timing")
    check_counts(reference, asked, candidate)
    sides = {Subject.CANDIDATE: candidate, Subject.EAGER: eager}
    over_others = {}
    for baseline in _of_other_numerics(reference):
        neutral(replace(reference.policy, precision=baseline.precision or reference.policy.precision))
        try:
            reference.load(asked.state)
            with reference.whereabouts.inside(FORWARD):
                sides[baseline.subject] = eager_traffic(reference.called_with, cloned(asked.inputs))
        finally:
            neutral(reference.policy)
        over_others[baseline.name] = _speedup(sides[baseline.subject], candidate, target, baseline.subject)
    timings = [_timing(subject, report, target_name) for subject, report in sides.items()]
    return Measured(timings, _speedup(eager, candidate, target, Subject.EAGER), over_others)


def _of_other_numerics(reference: Reference) -> list[Baseline]:
    """Eager under numerics that would make a difference on a GPU: a model knows no other baselines."""
    without = reference.no_alternatives(on_gpu=True)
    return [one for one in ALTERNATIVES if one.precision is not None and one.name not in without]


def _speedup(baseline: TrafficReport, candidate: TrafficReport, target: Target, over: Subject) -> Speedup:
    low, middle, high = modelled_speedup(baseline, candidate, target)
    return Speedup(middle, low, high, 1, Basis.MODELLED, over)


def _timing(subject: Subject, report: TrafficReport, target_name: str) -> Timing:
    low, middle, high = kernel_time_us(report, target_named(target_name))
    detail = {"target": target_name, **report.to_json()}
    return Timing(subject, Basis.MODELLED, METHOD, (middle,), middle, low, high, detail)
