"""Time without a GPU: counted traffic through the time model. MODELLED, never measured."""

from __future__ import annotations

import hashlib

from judge.bench.exchange.nested import cloned
from judge.bench.exchange.wire import Message
from judge.bench.foreign.whereabouts import FORWARD
from judge.bench.interpreting.op_traffic import eager_traffic
from judge.bench.interpreting.targets import target as target_named
from judge.bench.interpreting.timemodel import kernel_time_us, modelled_speedup
from judge.bench.interpreting.traffic import TrafficReport
from judge.bench.judging.asking import Question
from judge.bench.judging.completion import Ended
from judge.bench.judging.reference import Reference
from judge.bench.subjects.watch import traffic_report
from judge.bench.timing.counted import check_counts
from judge.bench.timing.stage import Measured
from judge.values import Basis, Speedup, Subject, Timing, Verdict

METHOD = "traffic_model"


def fixed_seed(source: str) -> int:
    """Seed of the one draw whose traffic is counted: fixed, so that the same candidate always gets the same number.

    Every other round draws from the system's entropy.
    """
    return int(hashlib.sha256(source.encode()).hexdigest()[:8], 16)


def modelled(reference: Reference, asked: Question, answer: Message, target_name: str) -> Measured:
    """Times of candidate and reference on the named GPU, with the model's range. `answer` has the counted launches.

    Raises Ended when the candidate's counts are no counts, or too small to be true.
    """
    target = target_named(target_name)
    try:
        candidate = traffic_report(answer["traffic"])
    except (KeyError, TypeError, ValueError) as error:
        raise Ended(Verdict.DISHONEST, "timing", "tamper.channel", "the counted traffic is malformed") from error
    reference.load(asked.state)
    inputs = cloned(asked.inputs)
    with reference.whereabouts.inside(FORWARD):
        eager = eager_traffic(reference.model, inputs)
    if not candidate.kernels or not eager.kernels:
        raise Ended(
            Verdict.UNSUPPORTED, "timing", "time.nothing_launched", "no launch was counted, so no time can be modelled"
        )
    check_counts(reference, asked, candidate)
    low, middle, high = modelled_speedup(eager, candidate, target)
    speedup = Speedup(middle, low, high, 1, Basis.MODELLED, Subject.EAGER)
    sides = ((Subject.CANDIDATE, candidate), (Subject.EAGER, eager))
    return Measured([_timing(subject, report, target_name) for subject, report in sides], speedup)


def _timing(subject: Subject, report: TrafficReport, target_name: str) -> Timing:
    low, middle, high = kernel_time_us(report, target_named(target_name))
    detail = {"target": target_name, **report.to_json()}
    return Timing(subject, Basis.MODELLED, METHOD, (middle,), middle, low, high, detail)
