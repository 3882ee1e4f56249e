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
    check_seen(reply, STAGE)
    report = traffic_report(reply.traffic or ())
    us = kernel_time_us(report, target(setting.assignment.target))[1] if report.kernels else 0.0
    if us > MOST_MORE * setting.candidate_us:
        raise Ended(
            Verdict.SUSPECT,
            STAGE,
            "audit.counts",
            f"what a fresh process counted for other content takes {us:.1f} µs by the model, the counts that its time "
            f"is modelled from {setting.candidate_us:.1f} µs; do the same work for any content",
        )
    return f"{us:.1f} µs by the counts of a fresh process, {setting.candidate_us:.1f} µs by those taken"
