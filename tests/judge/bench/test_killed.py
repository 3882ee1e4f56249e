"""Why a child was killed: the kernel's count decides what was a lack of memory, and who had taken it."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from judge.bench.processes.children import Child
from judge.bench.processes.jobs import EvaluationPlan
from judge.bench.processes.killed import Cause, Kills, oom_kills
from judge.bench.runner import Bench
from judge.values import Job, JudgeError, Limits, Outcome, ProblemSpec, UnclearFault, Verdict
from tests.judge.bench_problems import PROBLEM, SAME

KILLED = int(signal.SIGKILL)


def kills(*counts: int | None) -> Kills:
    """At the start of each child and whenever one has been killed."""
    found = iter(counts)
    return Kills(lambda: next(found))


def cause(of: Kills, number: int = 1, status: int = KILLED, **given: Any) -> Cause:
    return of.cause(number, status, **({"by_judge": False, "cpu_s": 1.0, "limit_s": 10.0} | given))


@pytest.mark.parametrize(
    ("counts", "given", "found"),
    [
        ((3, 4), {}, Cause.MEMORY),
        ((3, 3), {}, Cause.NONE),
        ((3, 3), {"cpu_s": 10.1}, Cause.TIME),
        ((3, 4), {"cpu_s": 10.1}, Cause.MEMORY),
        ((3, 4), {"by_judge": True}, Cause.JUDGE),
        ((3, 4), {"status": 3 << 8}, Cause.NONE),
        ((3, 4), {"status": int(signal.SIGSEGV)}, Cause.NONE),
        ((None, None), {}, Cause.MEMORY),
        ((None, None), {"cpu_s": 10.1}, Cause.TIME),
    ],
)
def test_only_a_count_that_grew_makes_a_kill_a_lack_of_memory(counts, given, found):
    of = kills(*counts)
    of.started(1)
    assert cause(of, **given) is found


def test_one_counted_kill_explains_one_end():
    of = kills(0, 0, 0, 1, 1, 2)
    for number in (1, 2, 3):
        of.started(number)
    assert [cause(of, number) for number in (1, 2, 3)] == [Cause.MEMORY, Cause.NONE, Cause.MEMORY]


def machine(tmp_path: Path, group: str, *files: str) -> int | None:
    """The count of one whose control group is told so, with "path=text" below the folder of groups."""
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(group)
    for path, text in (file.split("=") for file in files):
        place = proc / "vmstat" if path == "vmstat" else groups / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return oom_kills(proc, groups)


VMSTAT = "vmstat=nr_free_pages 8\noom_kill 5\n"


@pytest.mark.parametrize(
    ("group", "files", "count"),
    [
        ("0::/a/b\n", ["a/b/memory.events=low 0\noom 9\noom_kill 2\noom_group_kill 1\n", VMSTAT], 2),
        ("0::/\n", ["memory.events=oom_kill 3\n", VMSTAT], 3),
        ("0::/host/name\n", ["memory.events=oom_kill 3\n", VMSTAT], 3),
        ("4:memory:/x\n0::/\n", ["memory/x/memory.oom_control=under_oom 0\noom_kill 4\n", VMSTAT], 4),
        ("0::/\n", [VMSTAT], 5),
        ("0::/\n", [], None),
    ],
)
def test_the_count_of_the_own_group_is_taken_where_there_is_one(tmp_path, group, files, count):
    assert machine(tmp_path, group, *files) == count


def died(
    child_cause: Cause, *, peak_mb: int = 0, name: str = "candidate", status: int = KILLED, **given: Any
) -> Outcome:
    """The outcome of an evaluation whose referee says that this child is gone."""
    plan = EvaluationPlan(Bench("cpu"), Job("x", ProblemSpec(PROBLEM), SAME, limits=Limits(memory_mb=1000)))
    child = Child.__new__(Child)
    child.status, child.cause, child.log, child.layers = status, child_cause, bytearray(), {"rlimits": "active"}
    child.killed, child.peak_kb = False, peak_mb << 10
    plan.endings = {name: child.ending()}
    said = Outcome(Verdict.CRASHED, "smoke", "run.died", "forward ended it", environment={"failed_child": name})
    group: Any = SimpleNamespace(members={"candidate": child, "referee": child, name: child})
    return plan.outcome(dataclasses.replace(said, **given).to_json(), group)


def test_a_candidate_that_kills_itself_has_crashed():
    found = died(Cause.NONE)
    assert (found.verdict, found.reason) == (Verdict.CRASHED, "run.died")
    assert found.message == "forward ended it: killed by SIGKILL"


def test_a_candidate_is_out_of_memory_where_it_held_what_was_short():
    assert died(Cause.MEMORY, peak_mb=500).verdict is Verdict.OUT_OF_MEMORY
    with pytest.raises(JudgeError, match="a child held 499 of 1,000 MiB"):
        died(Cause.MEMORY, peak_mb=499)


def test_processor_time_is_told_whatever_signal_ended_it():
    for signalled in (died(Cause.TIME), died(Cause.NONE, status=int(signal.SIGXCPU))):
        assert (signalled.verdict, signalled.reason) == (Verdict.TIMED_OUT, "run.timeout")


def test_a_candidate_that_closes_its_connection_and_lives_on_has_crashed():
    found = died(Cause.JUDGE)
    assert (found.verdict, found.reason) == (Verdict.CRASHED, "run.died")
    assert found.message == "forward ended it: it closed its connection and lived on"


def test_a_baseline_that_dies_is_the_problems_unless_memory_was_short():
    refused = {"verdict": Verdict.REFUSED_PROBLEM, "reason": "problem.died"}
    with pytest.raises(UnclearFault, match="the eager child found too little memory"):
        died(Cause.MEMORY, name="eager", **refused)
    assert died(Cause.NONE, name="eager", **refused).reason == "problem.raises"
