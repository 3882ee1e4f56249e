"""Checks share a GPU, a measurement has it alone, and neither waits for ever."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from judge.bench.device.gpu_lock import LONGEST_WAIT_S, MAKING, GpuLock, GpuUse
from judge.bench.device.lock_table import MARK, Held, LockTable, keeping, sharing, waiting
from judge.bench.exchange.contact import Deadline
from judge.bench.exchange.reports import Doing, Layers
from judge.bench.exchange.wire import Channel
from judge.bench.judging.stage_log import StageLog
from judge.bench.processes.jobs import EvaluationPlan
from judge.bench.processes.watching import Watch, fit_to_stay
from judge.bench.runner import Bench
from judge.values import Job, JudgeError, Limits, ProblemSpec, Verdict
from tests.judge.bench_problems import PROBLEM, SAME, judge

CHILD = """
import sys, time
from judge.bench.device import gpu_lock
from judge.bench.device.gpu_lock import GpuLock
gpu_lock.LONGEST_PUT_OFF_S = 60.0
handle = open(sys.argv[1], 'r+')
lock = GpuLock(handle.fileno())
with lock.shared():
    print('shared', flush=True)
    for line in sys.stdin:
        if line.strip() == 'alone':
            with lock.alone():
                print('alone', flush=True)
                sys.stdin.readline()
            print('again', flush=True)
        elif line.strip() == 'without contexts':
            with lock.alone(), lock.without_contexts():
                print('none', flush=True)
                sys.stdin.readline()
            print('again', flush=True)
        elif line.strip() == 'put off':
            with lock.alone(puts_off=True), lock.without_contexts():
                print('none', flush=True)
                sys.stdin.readline()
            print('again', flush=True)
        elif line.strip() == 'contexts?':
            print(lock.contexts_are_made(), flush=True)
        elif line.strip() == 'pass':
            lock.let_pass()
            print('passed', flush=True)
        elif line.strip() == 'asked':
            lock.asked = 1
        elif line.strip() == 'go':
            with lock.left():
                print('left', flush=True)
                sys.stdin.readline()
            print('back', flush=True)
        else:
            break
"""


def start(path: Path, program: str = CHILD, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path), *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def until_waiting(path: Path, child: subprocess.Popen[str]) -> None:
    """Return when the kernel says that the child waits for the lock."""
    table, fd = table_of(path)
    waits(table, child)
    os.close(fd)


def waits(table: LockTable, child: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 30.0
    while not waiting(table.held(), {child.pid}):
        assert time.monotonic() < until, "it does not wait"
        time.sleep(0.005)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str], subprocess.Popen[str]]]:
    """A lock file, one that shares the GPU, and one that shares it and waits to have it alone."""
    path = tmp_path / "gpu.lock"
    path.touch()
    one, other = start(path), start(path)
    assert (hear(one), hear(other)) == ("shared", "shared")
    say(other, "alone")
    until_waiting(path, other)
    yield path, one, other
    finish(one, other)


def say(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdin is not None
    child.stdin.write(word + "\n")
    child.stdin.flush()


def hear(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def finish(*children: subprocess.Popen[str]) -> None:
    for child in children:
        child.kill()
        child.communicate()


def test_two_check_at_once_but_one_measures_after_the_other_has_left(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    one, two = start(path), start(path)
    assert (hear(one), hear(two)) == ("shared", "shared")
    say(one, "alone")
    say(two, "leave")
    assert hear(one) == "alone"
    assert two.wait() == 0
    finish(one, two)


def test_two_that_both_want_it_alone_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    one, two = start(path), start(path)
    assert (hear(one), hear(two)) == ("shared", "shared")
    say(one, "alone")
    say(two, "alone")
    for child in (one, two):
        say(child, "end of turn")
        say(child, "leave")
    for child in (one, two):
        assert hear(child) == "alone"
        assert hear(child) == "again"
    finish(one, two)


def test_a_dead_holder_frees_the_gpu(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    one = start(path)
    assert hear(one) == "shared"
    say(one, "alone")
    assert hear(one) == "alone"
    two = start(path)
    one.kill()
    assert hear(two) == "shared"
    finish(one, two)


def test_whoever_waits_to_measure_passes_between_two_pieces_of_work(two) -> None:
    path, one, other = two
    say(one, "pass")
    assert hear(other) == "alone"
    until_waiting(path, one)
    say(other, "end of turn")
    assert (hear(other), hear(one)) == ("again", "passed")
    say(one, "pass")
    assert hear(one) == "passed", "nobody waits: it goes on at once"


def test_nobody_passes_while_a_question_is_out(two) -> None:
    path, one, other = two
    for word in ("asked", "pass", "go"):
        say(one, word)
    assert (hear(one), hear(one)) == ("passed", "left")
    until_waiting(path, other)
    say(one, "come back")
    assert hear(one) == "back"
    until_waiting(path, other)


def test_a_wait_for_a_process_keeps_nobody_from_measuring(two) -> None:
    path, one, other = two
    say(one, "go")
    assert (hear(one), hear(other)) == ("left", "alone")
    say(one, "come back")
    until_waiting(path, one)
    other.kill()
    assert hear(one) == "back", "who dies while it measures frees the GPU"


def test_a_wait_is_announced_and_an_uncontended_lock_is_not(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    heard: list[str] = []
    one = start(path)
    assert hear(one) == "shared"

    @contextmanager
    def waiting() -> Iterator[None]:
        heard.append("waits")
        say(one, "leave")
        yield
        heard.append("has it")

    with path.open("r+") as handle:
        lock = GpuLock(handle.fileno(), waiting)
        with lock.shared():
            assert heard == []
            with lock.alone():
                assert heard == ["waits", "has it"]
    finish(one)


def test_paused_time_extends_a_deadline_up_to_a_bound() -> None:
    now = [0.0]
    deadline = Deadline(10.0, 20.0, lambda: now[0])
    with deadline.paused():
        now[0] = 100.0
    assert deadline.stage() == pytest.approx(10.0)
    with deadline.paused():
        now[0] = 100.0 + LONGEST_WAIT_S
    assert deadline.stage() == pytest.approx(0.05)


def test_a_step_within_a_pause_has_its_time_however_long_the_pause_is() -> None:
    now = [0.0]
    deadline = Deadline(10.0, 5.0, lambda: now[0])
    with deadline.paused():
        now[0] = 50.0
        with deadline.paused():  # a wait for the GPU, say
            now[0] = 60.0
            assert deadline.stage() == pytest.approx(5.0)
    assert deadline.stage() == pytest.approx(5.0)
    now[0] = 68.0
    assert deadline.stage() == pytest.approx(2.0), "no time is given twice"


def test_a_wait_for_the_gpu_counts_for_no_limit_of_the_stage_either() -> None:
    now = [0.0]
    whole, own = (Deadline(10.0, 10.0, lambda: now[0]) for _ in range(2))
    log = StageLog(cast(Channel, None), whole)
    log.own = own
    with log.waiting():
        now[0] = 50.0
    assert (whole.stage(), own.stage()) == (pytest.approx(10.0), pytest.approx(10.0))


def table_of(path: Path) -> tuple[LockTable, int]:
    fd = os.open(path, os.O_RDWR)
    return LockTable(fd), fd


def test_the_kernel_says_who_holds_the_lock_and_who_waits(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    one, two = start(path), start(path)
    assert hear(one) == hear(two) == "shared"
    say(one, "alone")  # waits for the other to leave
    table, fd = table_of(path)
    while not waiting(table.held(), {one.pid}):
        time.sleep(0.01)
    assert not waiting(table.held(), {two.pid}) and sharing(table.held(), {two.pid})
    assert not keeping(table.held(), {one.pid}), "who waits keeps nobody away, though it heads the queue"
    two.kill()
    assert hear(one) == "alone"
    assert keeping(table.held(), {one.pid}) and not waiting(table.held(), {one.pid})
    os.close(fd)
    finish(one, two)


def test_a_mark_that_another_thread_took_away_is_made_again(tmp_path: Path) -> None:
    class Disturbed(LockTable):
        reads = 0

        def _rows(self) -> Iterator[list[str]]:
            self.reads += 1
            if self.reads == 3:
                yield ["1:", "POSIX", "ADVISORY", "READ", str(os.getpid()), "aa:bb:1", str(MARK), str(MARK)]
            elif self.reads > 3:
                yield ["1:", "POSIX", "ADVISORY", "READ", "77", "aa:bb:1", "0", "0"]

    with (tmp_path / "gpu.lock").open("w+") as file:
        assert [row.pid for row in Disturbed(file.fileno()).held()] == [77]


def test_a_referee_that_draws_its_next_questions_at_once_may_stay(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    one = start(path)
    assert hear(one) == "shared"
    child: Any = SimpleNamespace(pid=one.pid, status=None, folder=tmp_path)
    assert fit_to_stay(child)
    finish(one)


def test_a_lock_file_without_a_table_is_held_by_nobody(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    one = start(path)
    assert hear(one) == "shared"
    fd = os.open(path, os.O_RDWR)
    assert LockTable(fd, tmp_path / "missing").held() == []
    assert [row.pid for row in LockTable(fd).held()] == [one.pid]
    os.close(fd)
    finish(one)


def test_only_waits_that_the_kernel_sees_extend_the_limit() -> None:
    plan = EvaluationPlan(Bench("cpu"), Job("x", ProblemSpec(PROBLEM), SAME))
    watch = plan.watch = Watch(Limits(), None, memory=False)
    for said in ("waiting for the GPU", "problem"):
        plan.hear(Doing(said), None)
    assert plan.waited_s() == 0.0
    waits = [Held(7, 0, alone=False, waits=True)]
    assert watch.saw(waits, 7, 3.0) is None and plan.waits
    assert watch.saw(waits, 8, 4.0) is None and not plan.waits, "somebody else waits"
    assert plan.waited_s() == 3.0
    watch.saw(waits, 7, 2 * LONGEST_WAIT_S)
    assert plan.waited_s() == LONGEST_WAIT_S


def test_a_problem_that_keeps_the_gpu_is_at_fault_and_one_that_measures_is_not() -> None:
    now = [0.0]
    watch = Watch(Limits(wall_s=120, stage_s=60), None, memory=False, clock=lambda: now[0])
    alone = [Held(7, 0, alone=True, waits=False)]
    assert watch.saw(alone, 7, 0.25) is None
    now[0] = 59.0
    assert watch.saw(alone, 7, 0.25) is None
    assert watch.saw([], 7, 0.25) is None  # it let go
    now[0] = 100.0
    assert watch.saw(alone, 7, 0.25) is None
    now[0] = 161.0
    broken = watch.saw(alone, 7, 0.25)
    assert broken is not None and broken.reason == "problem.keeps_gpu" and "61 s" in broken.message


def test_children_that_start_are_waited_for_and_keep_the_gpu_from_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("judge.bench.processes.listening.time.monotonic", lambda: now[0])
    plan = EvaluationPlan(Bench("cpu"), Job("x", ProblemSpec(PROBLEM), SAME))
    plan.watch = Watch(Limits(wall_s=120, stage_s=60), None, memory=False, clock=lambda: now[0])
    held = [Held(7, MAKING, alone=False, waits=False)]
    monkeypatch.setattr(plan.watch, "_table", SimpleNamespace(held=lambda: held))
    monkeypatch.setattr(plan.watch, "beyond", lambda members: {})
    referee = SimpleNamespace(pid=7, layers=None)
    candidate = SimpleNamespace(pid=8, starts=True)
    group: Any = SimpleNamespace(members={"referee": referee, "candidate": candidate})
    for now[0] in (10.0, 100.0, 130.0):
        plan.look(group, Limits())
    assert plan.broken is None and plan.waited_s() == 120.0
    plan.hear(Layers({"files": "active"}), None)
    now[0] = 150.0
    plan.look(group, Limits())
    assert plan.broken is not None and plan.broken.reason == "problem.keeps_gpu", "its context was there: it keeps it"
    assert plan.waited_s() == 140.0
    candidate.starts = False
    now[0] = 160.0
    plan.look(group, Limits())
    assert plan.waited_s() == 140.0


@pytest.mark.bench
@pytest.mark.quiet
def test_waiting_for_the_gpu_is_not_the_candidates_time(
    cpu_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    monkeypatch.setattr(cpu_bench, "gpu_lock", lambda: os.open(path, os.O_RDWR))
    monkeypatch.setattr(EvaluationPlan, "grace_s", 0.0)
    cpu_bench.server("plain").wait_ready()
    other = start(path)
    assert hear(other) == "shared"
    say(other, "alone")
    assert hear(other) == "alone"
    release = threading.Timer(4.5, other.kill)
    release.start()
    outcome = judge(cpu_bench, SAME, wall_s=4, stage_s=4)
    assert release.finished.is_set(), "it did not wait"
    assert outcome.verdict is Verdict.PASS
    told = outcome.environment
    assert told["gpu_waited_shared_s"] > 0 and told["gpu_shared_s"] > 0 and told["gpu_alone_s"] == 0, "it timed nothing"
    release.join()
    finish(other)


def test_the_lock_file_is_for_every_user_and_never_behind_a_link(tmp_path: Path) -> None:
    bench = Bench("cuda:3", lock_folder=tmp_path)
    before = os.umask(0o077)
    try:
        fds = [bench.gpu_lock(), bench.gpu_lock()]
    finally:
        os.umask(before)
    path = tmp_path / "adaexplore-gpu-3.lock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    for fd in fds:
        assert fd is not None
        os.close(fd)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JudgeError, match="lock file"):
        bench.gpu_lock()


def test_a_lock_file_that_may_not_be_written_is_the_judges_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("judge.bench.runner.os.open", refuse)
    with pytest.raises(JudgeError, match=r"adaexplore-gpu-0\.lock.*Permission denied"):
        Bench("cuda", lock_folder=tmp_path).gpu_lock()


def test_the_time_held_is_told_even_when_it_ends_badly(tmp_path: Path) -> None:
    now = [10.0]
    with (tmp_path / "gpu.lock").open("w+") as handle:
        lock = GpuLock(handle.fileno(), clock=lambda: now[0])
        with lock.shared():
            now[0] += 1.0
            with lock.alone():
                now[0] += 2.5
            now[0] += 4.0
            with pytest.raises(ZeroDivisionError), lock.alone():
                now[0] += 7.0
                _ = 1 / 0
            with lock.left():
                now[0] += 100.0
            now[0] += 8.0
    assert lock.use == GpuUse(0.0, 0.0, shared_s=13.0, alone_s=9.5)
    assert lock.use.to_json() == {
        "gpu_waited_shared_s": 0.0, "gpu_waited_alone_s": 0.0, "gpu_shared_s": 13.0, "gpu_alone_s": 9.5,
        "gpu_quiet_s": 0.0, "gpu_waited_contexts_s": 0.0,
    }  # fmt: skip
