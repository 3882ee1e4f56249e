"""Counts of an interpreted candidate once more, in a fresh process and for other content."""

from __future__ import annotations

from judge.bench.audit.setting import STAGE, Setting
from judge.bench.exchange.claims import Forwarded
from judge.bench.interpreting.targets import target
from judge.bench.interpreting.timemodel import kernel_time_us
from judge.bench.judging.completion import Ended
from judge.bench.subjects.watch import traffic_report
from judge.bench.timing.counted import check_seen
from judge.values import Verdict

MOST_MORE = 1.25  # times the modelled time; what other content changes in an honest kernel's work is less


def check_recount(setting: Setting, reply: Forwarded) -> str:
    """The modelled time by the counts of `reply`, beside the one that was taken. Raises Ended (`audit.counts`).

    The draw whose traffic makes the modelled time is the same for every candidate, so that equal kernels get equal
    times; a candidate could know it.
    """
    assert setting.candidate_us is not None
    us = recounted_us(reply, setting.assignment.target, setting.candidate_us, STAGE)
    return f"{us:.1f} µs by the counts of a fresh process, {setting.candidate_us:.1f} µs by those taken"


def recounted_us(reply: Forwarded, target_name: str, taken_us: float, stage: str) -> float:
    """The modelled time by the counts of `reply`, an answer for other content than `taken_us` is modelled from.

    Raises Ended (`audit.counts`) where it is much more.
    """
    check_seen(reply, stage)
    report = traffic_report(reply.traffic or ())
    us = kernel_time_us(report, target(target_name))[1] if report.kernels else 0.0
    if us > MOST_MORE * taken_us:
        raise Ended(
            Verdict.SUSPECT,
            stage,
            "audit.counts",
            f"what was counted for other content takes {us:.1f} µs by the model, the counts that its time is modelled "
            f"from {taken_us:.1f} µs; do the same work for any content",
        )
    return us
