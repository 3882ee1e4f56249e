"""The bench itself: what it reports, what survives it, what happens when its own parts die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from judge.bench.exchange.wire import Channel
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.children import Child
from judge.bench.processes.jobs import EvaluationPlan
from judge.bench.runner import Bench
from judge.values import Job, JudgeError, Limits, Outcome, ProblemSpec, SpeedCall, Verdict
from tests.judge.bench_problems import PROBLEM, SAME, believed, candidate, judge

pytestmark = pytest.mark.bench

LAYERS = {
    "namespaces",
    "files",
    "rlimits",
    "memory_limit",
    "process_limit",
    "capabilities",
    "no_new_privs",
    "landlock",
    "seccomp",
}


def test_a_pass_reports_its_stages_in_order_while_they_happen(cpu_bench):
    seen = []
    job = Job("x", ProblemSpec(PROBLEM), SAME, timing=False, beat=float("inf"))
    outcome = cpu_bench.evaluate(job, progress=seen.append)
    assert [stage.name for stage in seen] == ["parse", "load", "smoke", "correctness"]
    assert [stage.name for stage in outcome.stages] == ["parse", "load", "smoke", "correctness"]
    assert len(outcome.cases) >= 5 and {case.family for case in outcome.cases} >= {"given", "centred", "adversarial"}


def test_every_sandbox_layer_is_declared(cpu_bench):
    outcome = judge(cpu_bench, SAME)
    assert set(outcome.environment["sandbox"]) == LAYERS
    assert set(outcome.environment["children"]) == {"referee", "candidate"}
    assert outcome.environment["toolchain"].startswith("torch ")


def test_the_zygote_has_one_thread_and_no_cuda(cpu_bench):
    ready = cpu_bench.server("plain").wait_ready()
    assert ready["threads"] == 1
    assert ready["cuda_touched"] is False


@pytest.mark.quiet
def test_measured_times_come_in_pairs_with_an_interval(cpu_bench):
    outcome = believed(lambda: judge(cpu_bench, SAME, timing=True))
    assert outcome.verdict is Verdict.PASS
    assert outcome.speedup is not None and outcome.speedup.n >= 32
    assert outcome.speedup.low <= outcome.speedup.value <= outcome.speedup.high
    assert all(timing.n == outcome.speedup.n for timing in outcome.timings)


@pytest.mark.quiet
def test_a_slower_candidate_is_slower(cpu_bench):
    slow = candidate("for _ in range(200): y = self.right(x)\nreturn y")
    speedup = believed(lambda: judge(cpu_bench, slow, timing=True)).speedup
    assert speedup is not None and speedup.call is SpeedCall.SLOWER


def test_a_dead_zygote_is_the_judges_fault_and_the_next_call_starts_another(cpu_bench):
    cpu_bench.rest()  # what a referee that has stayed cannot decide, a new one would
    killed: list[int] = []

    def once(stage) -> None:
        if not killed and stage.name == "load":
            killed.append(cpu_bench.server("plain").process.pid)
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(JudgeError):
        cpu_bench.evaluate(Job("dies", ProblemSpec(PROBLEM), SAME), progress=once)
    assert killed and judge(cpu_bench, SAME).verdict is Verdict.PASS


def test_a_layer_that_is_required_and_missing_refuses_to_judge(cpu_bench, monkeypatch):
    monkeypatch.setattr(cpu_bench, "minimum_sandbox", frozenset({"hypervisor"}))
    with pytest.raises(JudgeError, match="hypervisor"):
        judge(cpu_bench, SAME)


def test_without_a_required_layer_no_foreign_code_runs_at_all(cpu_bench, monkeypatch, tmp_path):
    mark = f"\nopen({str(tmp_path / 'ran')!r}, 'w').close()\n"
    monkeypatch.setattr(cpu_bench, "sandbox", False)
    monkeypatch.setattr(cpu_bench, "minimum_sandbox", frozenset({"landlock"}))
    with pytest.raises(JudgeError, match="landlock"):
        judge(cpu_bench, SAME + mark, problem=PROBLEM + mark)
    with pytest.raises(JudgeError, match="landlock"):
        cpu_bench.admit(ProblemSpec(PROBLEM + mark))
    assert not (tmp_path / "ran").exists()


def test_without_a_sandbox_the_environment_says_so(cpu_bench, monkeypatch):
    monkeypatch.setattr(cpu_bench, "sandbox", False)
    outcome = judge(cpu_bench, SAME)
    assert outcome.verdict is Verdict.PASS
    assert outcome.environment["sandbox"] == {"namespaces": "off", "files": "off"}


@pytest.mark.parametrize("ready", [False, True])
def test_closing_waits_for_nothing_that_still_loads_and_leaves_no_folder(ready):
    with Bench("cpu") as bench:
        server = bench.server("plain")
        folder = bench._root
        assert folder is not None and folder.exists()
        if ready:
            server.wait_ready()
    assert server.process is not None
    assert server.process.returncode == (0 if ready else -signal.SIGTERM)
    assert not folder.exists()
    bench.close()


def test_a_server_that_is_told_to_end_takes_along_a_branch_that_still_loads():
    with Bench("cpu") as bench:
        server = bench.server("plain")
        bench.server("recorder")
        assert server.process is not None
        children = children_of(server.process.pid)
        server.process.terminate()
        server.process.wait()
    assert children
    for child in children:
        assert gone(Path(f"/proc/{child}"), 60)


WORKER = """
import sys
sys.path.insert(0, {root!r})
from judge.bench.runner import Bench
from judge.values import Job, ProblemSpec
from tests.judge.bench_problems import PROBLEM, candidate
bench = Bench("cpu", alternatives=False)
bench.server("plain").wait_ready()
print(bench._root, bench.server("plain").process.pid, flush=True)
bench.evaluate(Job("x", ProblemSpec(PROBLEM), candidate("print('in'); time.sleep(300)")))
"""


def gone(path: Path, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while path.exists() and time.monotonic() < deadline:
        os.sched_yield()
    return not path.exists()


def children_of(pid: int | str) -> list[str]:
    """Its children, as soon as there are any."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    deadline = time.monotonic() + 30
    while not path.read_text().strip() and time.monotonic() < deadline:
        os.sched_yield()
    return path.read_text().split()


def test_nothing_outlives_a_worker_that_is_killed():
    root = str(Path(__file__).resolve().parents[3])
    worker = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WORKER.format(root=root))],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    folder, pid = worker.stdout.readline().split()
    children = children_of(pid)
    worker.kill()
    worker.wait()
    worker.stdout.close()
    assert children
    for process in (pid, *children):
        assert gone(Path(f"/proc/{process}"), 20)
    assert gone(Path(folder), 5)


@pytest.mark.parametrize(
    ("source", "reason", "words"),
    [
        (PROBLEM + "\nimport os\nos._exit(0)\n", "problem.raises", "exited with status 0"),
        (PROBLEM + "\nkeep = bytearray(1 << 36)\n", "problem.memory", "memory"),
        (PROBLEM + "\nraise SystemExit(3)\n", "problem.raises", "SystemExit"),
        (PROBLEM.replace("SIZE)]", "SIZE]"), "source.syntax", "line"),
    ],
)
def test_a_problem_that_cannot_be_admitted_is_refused_with_what_to_do(cpu_bench, source, reason, words):
    report = cpu_bench.admit(ProblemSpec(source), limits=Limits(wall_s=4))
    assert (report.state, report.reason) == ("refused", reason)
    assert words in report.message


def test_a_fit_problem_is_admitted_with_its_stages(cpu_bench):
    seen = []
    report = cpu_bench.admit(ProblemSpec(PROBLEM), progress=seen.append)
    assert report.state == "admitted", report
    assert report.inputs[0]["shape"] == [16, 64]
    assert [stage.name for stage in seen] == [stage.name for stage in report.stages]


@pytest.mark.quiet
def test_spares_are_used_by_the_next_evaluation_and_none_is_left_behind():
    with Bench("cpu", alternatives=False) as bench:
        bench.spares = 3
        assert believed(lambda: judge(bench, SAME, timing=True)).verdict is Verdict.PASS
        server = bench.server("plain")
        ready = [child for _, child in server._spares]
        assert len(ready) == 3
        assert believed(lambda: judge(bench, SAME, timing=True)).verdict is Verdict.PASS
        now = [child for _, child in server._spares]
        assert len(now) == 3 and not {id(child) for child in ready} & {id(child) for child in now}
        spare = server._spares[0][1]
        while not spare.pid:
            server.pump()
        os.kill(spare.pid, signal.SIGKILL)
        time.sleep(0.5)  # the zygote's report is on its way
        assert believed(lambda: judge(bench, SAME, timing=True)).verdict is Verdict.PASS, "a dead spare is passed over"
        folders = [child.folder for _, child in server._spares]
    assert not any(folder.exists() for folder in folders)


def test_spares_of_other_bounds_are_replaced(cpu_bench, monkeypatch):
    cpu_bench.rest()
    monkeypatch.setattr(cpu_bench, "spares", 1)
    judge(cpu_bench, SAME)
    first = cpu_bench.server("plain")._spares[0][1]
    judge(cpu_bench, SAME, memory_mb=2048)
    (order, second) = cpu_bench.server("plain")._spares[0]
    assert second is not first and order["memory_mb"] == 2048
    assert not first.folder.exists()
    cpu_bench.rest()
    assert cpu_bench.server("plain").waiting() == [] and not second.folder.exists()


@pytest.mark.parametrize(
    ("layers", "seen", "fault"),
    [
        ({"landlock": "active"}, True, ""),
        ({}, True, "before it had an assignment: exited with status 1"),
        ({}, False, "had ended, and it lives"),
    ],
)
def test_a_child_that_ended_before_it_read_anything_is_nobodys_crash(cpu_bench, tmp_path, layers, seen, fault):
    """A CUDA context that found no memory, say: the child has not told its sandbox yet."""
    plan = EvaluationPlan(cpu_bench, Job("x", ProblemSpec(PROBLEM), SAME))
    members = {}
    for name, told in (("referee", {"landlock": "active"}), ("candidate", layers)):
        boss, theirs = Channel.pair()
        theirs.close()
        log, other = os.pipe()
        os.close(other)
        members[name] = Child(1, cpu_bench.server("plain"), tmp_path, boss, log, status=1 << 8, layers=told)
    group = ChildGroup(Limits())
    group.members = members
    body = Outcome(Verdict.CRASHED, stage="load", reason="load.died", message="the import ended it").to_json()
    try:
        if seen:
            plan.endings["candidate"] = members["candidate"].ending()
        if not fault:
            assert plan.outcome(body, group).verdict is Verdict.CRASHED
        else:
            with pytest.raises(JudgeError, match=fault):
                plan.outcome(body, group)
    finally:
        for child in members.values():
            child.release()
