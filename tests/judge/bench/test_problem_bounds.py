"""A problem is held to its own limits, and what breaks them is blamed on it: never on the device."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from judge.bench.exchange.reports import DETAIL_CHARS, Doing, Inside, heard
from judge.bench.exchange.wire import Channel, WireGarbage
from judge.bench.processes import watching
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.children import Child, Server
from judge.bench.processes.conducting import Conductor
from judge.bench.processes.jobs import AdmissionPlan, EvaluationPlan
from judge.bench.processes.listening import MOST_MESSAGES, MOST_STAGES
from judge.bench.processes.stopping import stoppable
from judge.bench.processes.watching import Broken, Usage, Watch, descendants, fit_to_stay, usage_of
from judge.bench.runner import Bench
from judge.values import Job, JudgeError, Limits, Outcome, ProblemSpec, StageRecord, Stopped, UnclearFault, Verdict
from tests.judge.bench_problems import PROBLEM, SAME, candidate

LIMITS = Limits(wall_s=4, stage_s=2)
STAGE = {"name": "load", "state": "ok", "wall_ms": 1.0}


def plan() -> EvaluationPlan:
    return EvaluationPlan(Bench("cpu"), Job("x", ProblemSpec(PROBLEM), SAME))


def group(**changes: Any) -> Any:
    child = {"killed": False, "killed_for_memory": False, "out_of_time": False, "pid": 0, "log": b"", "log_dropped": 0}
    child |= {"tail": lambda: "", "ending": lambda: "exited with status 3", "layers": {}, "starts": False}
    one = SimpleNamespace(**{**child, **changes})
    return group_of({"referee": one, "candidate": one})


def group_of(members: dict[str, Any]) -> Any:
    return SimpleNamespace(members=members)


# -- messages --


def test_stages_beyond_the_bound_are_left_out_and_long_texts_are_cut():
    one, seen = plan(), list[StageRecord]()
    long = {"stage": {**STAGE, "detail": "d" * 50_000, "fix": "f" * 50_000}, "nonce": "n"}
    for _ in range(MOST_STAGES + 5):
        one.hear(heard(long, "n"), seen.append)
    assert len(one.stages) == len(seen) == MOST_STAGES
    assert (len(seen[0].detail), len(seen[0].fix)) == (DETAIL_CHARS, DETAIL_CHARS)
    refused = one.refused("problem.raises", "it ended", "fix it")
    assert (refused.verdict, refused.stages) == (Verdict.REFUSED_PROBLEM, tuple(seen))


def test_too_many_messages_are_the_problems_end():
    one = plan()
    for _ in range(MOST_MESSAGES):
        one.hear(Inside(""), None)
    step = SimpleNamespace(step=lambda wait_s, name: [{"inside": "", "nonce": "n"}])
    assert Conductor._heard(one, step, 0, "n", None) is None
    assert one.broken is not None and one.broken.reason == "problem.forges"
    outcome = one.outcome(None, group())
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.forges")


def test_a_bound_that_is_broken_stays_broken():
    one = plan()
    one.broken = Broken("problem.forges", "it sent not JSON", "")
    one.watch = SimpleNamespace(look=lambda child: None, waits=False)
    one.look(group(), LIMITS)
    assert one.broken is not None


def test_what_is_no_message_is_the_problems_end():
    def garbage(wait_s, name):
        raise WireGarbage("not JSON")

    for step in (garbage, lambda wait_s, name: [{"doing": "load"}], lambda wait_s, name: [{"doing": {}, "nonce": "n"}]):
        one = plan()
        assert Conductor._heard(one, SimpleNamespace(step=step), 0, "n", None) is None
        assert one.broken is not None and one.broken.reason == "problem.forges"


def test_what_follows_a_verdict_is_not_read():
    body = {"verdict": {"a": 1}, "mac": "00", "nonce": "n"}
    step = SimpleNamespace(step=lambda wait_s, name: [body, {"verdict": {"b": 2}, "mac": "11"}])
    one = plan()
    assert Conductor._heard(one, step, 0, "n", None).body == {"a": 1} and one.broken is None


def test_a_group_says_that_somebody_wrote_what_is_no_message(tmp_path):
    ours, theirs = Channel.pair()
    silent, _other = Channel.pair()

    class Zygote:
        channel = silent

        def pump(self) -> None:
            """It says nothing."""

    read, write = os.pipe2(os.O_NONBLOCK)
    found = ChildGroup(LIMITS)
    found.members["referee"] = Child(1, cast(Server, Zygote()), tmp_path, ours, read, log_open=False, status=0)
    theirs.sendall(b"\xff" * 64)
    with pytest.raises(WireGarbage):
        found.step(1.0, "referee")
    for end in (ours, silent, theirs, _other):
        end.close()
    for fd in (read, write):
        os.close(fd)


# -- time --


@pytest.mark.parametrize(("stage_s", "took_s", "told"), [(2, 2.5, "2.5 s"), (10, 10.4, "10 s")])
def test_one_call_of_the_problems_code_has_the_time_of_a_stage(monkeypatch, stage_s, took_s, told):
    now = [0.0]
    monkeypatch.setattr("judge.bench.processes.listening.time.monotonic", lambda: now[0])
    one, limits = plan(), Limits(wall_s=20, stage_s=stage_s)
    one.hear(Inside("Model.forward"), None)
    now[0] = stage_s
    one.look(group(), limits)
    assert one.broken is None
    now[0] = took_s
    one.look(group(), limits)
    assert one.broken is not None and one.broken.message == f"Model.forward did not return within {told}"


def test_a_preflight_says_which_bound_was_broken():
    one = AdmissionPlan(Bench("cpu"), ProblemSpec(PROBLEM), LIMITS)
    one.broken = watching.Broken("problem.files", "it wrote too much", "write less")
    report = one.admission(None, group())
    assert (report.state, report.reason, report.message) == (
        "refused",
        "problem.files",
        "it wrote too much; write less",
    )


# -- whose fault --


@pytest.mark.parametrize("said", ["correctness", "audit", "start"])
def test_an_end_outside_of_the_problems_code_is_unclear(said):
    one = plan()
    one.hear(Doing(said), None)
    with pytest.raises(UnclearFault):
        one.outcome(None, group())


def test_an_end_before_the_problem_was_read_is_the_judges():
    with pytest.raises(JudgeError) as raised:
        plan().outcome(None, group())
    assert not isinstance(raised.value, UnclearFault)


def cleared(monkeypatch, *, known: dict[str, Any] | Exception | None, device: str = "cpu", **changes: Any) -> Outcome:
    bench = Bench(device)

    def conduct(one, limits, progress):
        assert one.job.problem.source != PROBLEM
        if isinstance(known, Exception):
            raise known
        return known, None

    monkeypatch.setattr(bench.conductor, "conduct", conduct)
    one = plan()
    for name, value in changes.items():
        setattr(one, name, value)
    return bench._cleared(one, LIMITS, UnclearFault("no verdict"))


def test_the_problem_is_blamed_where_a_known_one_is_judged_right_after(monkeypatch):
    outcome = cleared(monkeypatch, known={"verdict": "pass"}, doing="correctness")
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.breaks_off")
    assert outcome.stage == "correctness" and "no verdict" in outcome.message and "remove threads" in outcome.message


@pytest.mark.parametrize("known", [None, JudgeError("no context")])
def test_the_device_is_at_fault_where_no_problem_can_be_judged(monkeypatch, known):
    with pytest.raises(JudgeError, match="no verdict"):
        cleared(monkeypatch, known=known)


@pytest.mark.parametrize(("used", "crowded"), [(10, False), (60, True), (None, True)])
def test_a_referee_that_gave_up_blames_nobody_and_not_the_device_unless_others_hold_its_memory(
    monkeypatch, used, crowded
):
    reading = SimpleNamespace(memory_used=used, memory_total=100)
    monkeypatch.setattr(
        "judge.bench.processes.known_problem.gpu_readings", lambda: {"cuda:0": reading} if used is not None else {}
    )
    with pytest.raises(JudgeError) as raised:
        cleared(monkeypatch, known={}, device="cuda:0", gave_up="others hold it")
    assert isinstance(raised.value, UnclearFault) is not crowded


# -- what it takes --


@pytest.mark.parametrize(
    ("usage", "reason"),
    [
        (Usage(20_000, 2 << 30, 32, 256 << 20), ""),
        (Usage(20_001, 0, 0, 0), "problem.files"),
        (Usage(0, (2 << 30) + 1, 0, 0), "problem.files"),
        (Usage(0, 0, 33, 0), "problem.processes"),
        (Usage(0, 0, 0, (256 << 20) + 1), "problem.memory"),
    ],
)
def test_what_a_problem_takes_is_bounded(monkeypatch, usage, reason):
    now = [0.0]
    monkeypatch.setattr(watching, "usage_of", lambda child: usage)
    for memory in (True, False):
        watch = Watch(Limits(memory_mb=256), None, memory=memory, clock=lambda: now[0])
        now[0] += 2.0
        found = watch.beyond({"referee": SimpleNamespace(status=None), "gone": SimpleNamespace(status=0)})
        expected = "" if reason == "problem.memory" and not memory else reason
        assert {name: one.reason for name, one in found.items()} == ({"referee": expected} if expected else {})
        assert watch.beyond({"referee": SimpleNamespace(status=None)}) == {}, "it looks once a second"


@pytest.mark.parametrize(("name", "blamed"), [("referee", True), ("eager#2", True), ("candidate", False)])
def test_what_takes_too_much_is_the_problems_where_its_code_runs(name, blamed):
    one, killed = plan(), []
    child = SimpleNamespace(server=SimpleNamespace(kill=killed.append))
    one._took_too_much(name, watching.Broken("problem.files", "it wrote too much", ""), group_of({name: child}))
    assert (one.broken is not None, killed) == ((True, []) if blamed else (False, [child]))
    assert one.ended_for == ({} if blamed else {"candidate": "it wrote too much"})


def test_files_processes_and_memory_are_those_that_the_kernel_counts(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"x" * 100_000)
    code = "import os, time\nkept = bytearray(os.urandom(1) * (64 << 20))\nprint(1, flush=True)\ntime.sleep(60)"
    shell = f"{sys.executable} -c '{code}'; true"
    with subprocess.Popen(["/bin/sh", "-c", shell], stdout=subprocess.PIPE, start_new_session=True) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        child: Any = SimpleNamespace(pid=leader.pid, status=None, folder=tmp_path)
        usage = usage_of(child)
        assert not fit_to_stay(child)
        below = descendants(leader.pid)
        for pid in (*below, leader.pid):
            os.kill(pid, 9)
    assert usage.files == 2 and usage.disk_bytes >= 100_000
    assert usage.processes == len(below) == 1
    assert usage_of(child).processes == 0 and fit_to_stay(child), "nobody is left"


def test_who_was_ended_for_a_bound_is_told_so_where_its_verdict_comes_before_its_end():
    one = plan()
    one.ended_for["candidate"] = "it wrote too much"
    body = Outcome(Verdict.CRASHED, stage="smoke", reason="run.died", message="forward ended it").to_json()
    assert (
        one.outcome(body, group(layers={"landlock": "active"}, cause=None)).message
        == "forward ended it: it wrote too much"
    )


# -- real children --

FILLS = "for number in range(200_000): open(str(number), 'w').close()"


@pytest.mark.bench
def test_a_candidate_that_fills_the_disk_is_ended_and_says_why(cpu_bench, monkeypatch):
    monkeypatch.setattr(watching, "MOST_FILES", 2000)
    monkeypatch.setattr(watching, "USAGE_S", 0.0)
    limits = Limits(wall_s=20, stage_s=20)
    job = Job("x", ProblemSpec(PROBLEM), candidate(f"{FILLS}\nreturn self.right(x)"), limits=limits, timing=False)
    outcome = cpu_bench.evaluate(job)
    assert (outcome.verdict, outcome.reason) == (Verdict.CRASHED, "run.died")
    assert "wrote more than 2,000 files" in outcome.message


HANGS_UNSEEN = PROBLEM.replace(
    "        return torch",
    """        import gc, time
        from judge.bench.exchange.wire import Channel
        for channel in [one for one in gc.get_objects() if isinstance(one, Channel) and one.stamp]:
            for message in ({"inside": ""}, {"doing": "correctness"}):
                channel.send(message)
        time.sleep(1000)
        return torch""",
)


def judged(bench: Bench, problem: str, limits: Limits | None = None) -> Outcome:
    return bench.evaluate(
        Job("x", ProblemSpec(problem), SAME, limits=limits or Limits(), timing=False, beat=float("inf"))
    )


DIES_AS_BASELINE = PROBLEM.replace(
    "        return torch",
    """        import gc, os
        if not any(type(one).__name__ == "Referee" for one in gc.get_objects()):
            os._exit(3)
        return torch""",
)


@pytest.mark.bench
def test_a_problem_that_ends_its_baseline_is_refused(cpu_bench):
    job = Job("x", ProblemSpec(DIES_AS_BASELINE), SAME, limits=Limits(wall_s=120, stage_s=120), beat=float("inf"))
    outcome = cpu_bench.evaluate(job)
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.raises")
    assert outcome.message == "the reference ended its process as the eager baseline: exited with status 3"


@pytest.mark.bench
def test_a_problem_that_says_it_is_elsewhere_and_hangs_is_refused(cpu_bench, monkeypatch):
    monkeypatch.setattr(EvaluationPlan, "grace_s", 0.0)
    outcome = judged(cpu_bench, HANGS_UNSEEN, LIMITS)
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.breaks_off")
    assert judged(cpu_bench, PROBLEM).verdict is Verdict.PASS


WORKS_ON = """
import threading, time

threading.Thread(target=lambda: [time.sleep(0.01) for _ in range(10**6)], daemon=True).start()
"""


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.bench
def test_a_referee_that_stays_does_nothing_until_it_is_asked(cpu_bench):
    cpu_bench.rest()
    works_on = PROBLEM + WORKS_ON
    assert judged(cpu_bench, works_on).verdict is Verdict.PASS
    (referee,) = cpu_bench.kept_referees.members()
    while state_of(referee.pid) != "T":
        time.sleep(0.01)
    assert judged(cpu_bench, works_on).verdict is Verdict.PASS
    assert [one.pid for one in cpu_bench.kept_referees.members()] == [referee.pid], "it went on where it was stopped"


@pytest.mark.bench
def test_a_referee_with_a_process_at_work_does_not_stay(cpu_bench):
    forks = PROBLEM + "\nimport os, time\nif not os.fork():\n    time.sleep(1000)\n"
    cpu_bench.rest()
    assert judged(cpu_bench, forks).verdict is Verdict.PASS
    assert cpu_bench.kept_referees.members() == []


@pytest.mark.bench
@pytest.mark.parametrize("what", ["evaluation", "preflight"])
def test_the_processes_of_work_that_nobody_wants_any_more_end(cpu_bench, what):
    asked: list[int] = []

    def unwanted() -> bool:
        asked.append(len(cpu_bench.server("plain").children))
        return asked[-1] > 0

    cpu_bench.rest()
    with stoppable(unwanted), pytest.raises(Stopped):
        if what == "evaluation":
            hangs = candidate("time.sleep(1000)")
            cpu_bench.evaluate(Job("x", ProblemSpec(PROBLEM), hangs, timing=False, beat=float("inf")))
        else:
            cpu_bench.admit(ProblemSpec(PROBLEM.replace("import torch", "while True: pass")))
    assert asked[-1] and not cpu_bench.server("plain").children, "whoever was started has ended"
    assert judged(cpu_bench, PROBLEM).verdict is Verdict.PASS
