"""Counts told by a fresh process for other content bound the modelled time; operators nobody counts end it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from judge.bench.audit.recount import MOST_MORE, check_recount
from judge.bench.interpreting.targets import target
from judge.bench.interpreting.timemodel import kernel_time_us
from judge.bench.subjects.watch import traffic_report
from judge.bench.timing.counted import check_seen
from judge.values import Verdict
from tests.judge.audit_setting import Audited, ended
from tests.judge.replies import counted, forwarded

ROW = counted("k")
US = kernel_time_us(traffic_report([ROW]), target("sm_90"))[1]


def recounted(candidate_us: float, **told: object) -> str:
    setting = Audited(candidate_us=candidate_us, assignment=SimpleNamespace(target="sm_90"))
    return check_recount(setting, replace(forwarded(), traffic=(ROW,), **told))


def test_equal_work_is_fine_and_so_is_less():
    assert recounted(US).startswith(f"{US:.1f} ") and recounted(10 * US) and recounted(US / MOST_MORE * 1.001)


def test_more_work_for_other_content_is_suspect():
    assert ended(lambda: recounted(US / MOST_MORE * 0.999)) == (Verdict.SUSPECT, "audit", "audit.counts")


def test_operators_that_nobody_counts_are_named():
    assert ended(lambda: recounted(US, unseen=("aten::mm",))) == (Verdict.SUSPECT, "audit", "physics.operators")
    assert ended(lambda: check_seen(replace(forwarded(), unseen=("aten::mm",)), "timing"))[1] == "timing"
    check_seen(forwarded(), "timing")
