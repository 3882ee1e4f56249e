"""Which processors a bench times on, who is moved there, and that no child can move itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from judge.bench.device.nvml import bus_addresses
from judge.bench.exchange.wire import Channel
from judge.bench.processes import cores, placing
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.cores import CorePlan, listed, move, node_of, parsed, plan_cores
from judge.bench.processes.placing import MOST_MOVES, Mover, Placed, place, timed
from judge.bench.runner import Bench
from judge.values import Job, JudgeError, Limits, ProblemSpec
from tests.judge.bench.fake_nvml import Board, FakeNvml

LIMITS = Limits(wall_s=300, stage_s=120)


def machine(folder: Path, *pairs: tuple[int, ...], nodes: tuple[str, ...] = ()) -> Path:
    """A /sys with these physical cores, each of the processors named, and the nodes' processors."""
    for pair in pairs:
        for one in pair:
            topology = folder / f"cpu/cpu{one}/topology"
            topology.mkdir(parents=True)
            (topology / "thread_siblings_list").write_text(listed(pair) + "\n")
    for number, text in enumerate(nodes):
        (folder / f"node/node{number}").mkdir(parents=True)
        (folder / f"node/node{number}/cpulist").write_text(text + "\n")
    return folder


@pytest.mark.parametrize(("text", "numbers"), [("0-3,8", [0, 1, 2, 3, 8]), ("5\n", [5]), ("", [])])
def test_lists_of_the_kernel_are_read_and_written(text, numbers):
    assert parsed(text) == numbers and listed(numbers) == text.strip()


def test_a_gpu_is_timed_on_one_physical_core_with_its_siblings(tmp_path):
    system = machine(tmp_path, (0, 8), (1, 9), (2, 10), (3, 11))
    plan = plan_cores(allowed=[0, 1, 2, 3, 8, 9, 10, 11], system=system)
    assert plan == CorePlan(frozenset({3, 11}), frozenset({0, 1, 2, 8, 9, 10}))


def test_two_cores_are_taken_where_siblings_are_none_or_not_known(tmp_path):
    assert plan_cores(allowed=range(16), system=tmp_path).timed == {14, 15}
    assert plan_cores(allowed=range(4), system=tmp_path) == CorePlan(frozenset({2, 3}), frozenset({0, 1}))


def test_only_processors_that_may_be_used_are_planned(tmp_path):
    system = machine(tmp_path, (0, 8), (1, 9), (2, 10), (3, 11))
    plan = plan_cores(allowed=[0, 1, 2, 8, 10], system=system)  # of core 1 only one half
    assert plan.timed == {2, 10} and plan.others == {0, 1, 8}


def test_gpus_of_one_host_have_sets_of_their_own_and_nobody_works_on_anothers(tmp_path):
    plans = [plan_cores(number, 3, allowed=range(16), system=tmp_path) for number in range(3)]
    assert len(frozenset().union(*(plan.timed for plan in plans))) == 6
    assert {plan.others for plan in plans} == {frozenset(range(10))}


def test_gpus_share_where_half_of_the_processors_are_too_few(tmp_path):
    plans = [plan_cores(number, 4, allowed=range(8), system=tmp_path) for number in range(4)]
    assert [sorted(plan.timed) for plan in plans] == [[6, 7], [4, 5], [6, 7], [4, 5]]
    assert {plan.others for plan in plans} == {frozenset(range(4))}


def test_a_gpu_is_timed_near_its_own_memory(tmp_path):
    system = machine(tmp_path, (0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,), nodes=("0-3", "4-7"))
    near = [plan_cores(n, 2, allowed=range(8), nodes={0: 0, 1: 1}, system=system).timed for n in range(2)]
    assert near == [{2, 3}, {6, 7}]


@pytest.mark.parametrize(
    ("allowed", "pairs"), [(range(3), ()), (range(4), ((0, 1, 2, 3),))], ids=["three", "one physical core"]
)
def test_too_few_processors_are_not_divided_and_it_is_said(tmp_path, allowed, pairs):
    plan = plan_cores(allowed=allowed, system=machine(tmp_path, *pairs))
    assert not plan.divided and plan.why == f"not divided: {len(allowed)} processors may be used, 4 are needed"


def test_a_plan_is_two_sets_apart_or_a_reason():
    for timed_on, others, why in (({1}, {1, 2}, ""), ({1}, set(), ""), (set(), set(), ""), ({1}, {2}, "why")):
        with pytest.raises(ValueError, match="either"):
            CorePlan(frozenset(timed_on), frozenset(others), why)


def test_where_processors_may_not_be_chosen_the_reason_is_said(monkeypatch):
    def refuse(pid, wanted):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert plan_cores().why == "not divided: this process may choose no processors (Operation not permitted)"
    assert move(os.getpid(), {0}) in ("", "its threads could not be moved (Operation not permitted)")


def test_the_node_of_a_gpu_is_read_by_its_address(tmp_path):
    for name, text in (("0000:3b:00.0", "1\n"), ("0000:5e:00.0", "-1\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "numa_node").write_text(text)
    assert node_of("00000000:3B:00.0", tmp_path) == 1
    assert node_of("0000:5e:00.0", tmp_path) is None and node_of("", tmp_path) is None


def test_benches_of_a_machine_with_gpus_leave_their_processors_alone(monkeypatch):
    shown = {"GPU-a": "", "GPU-b": ""}
    monkeypatch.setattr(cores, "bus_addresses", lambda: shown)
    monkeypatch.setattr(cores, "entry_of", lambda ordinal: "GPU-b")
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, wanted: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(12)))
    monkeypatch.setattr(cores, "_physical", lambda usable, system: [frozenset({one}) for one in sorted(usable)])
    assert cores.plan_for("cuda:0").timed == {8, 9}, "the one that is shown is the second of the machine"
    assert cores.plan_for("interpreter").others == cores.plan_for("cuda:0").others == frozenset(range(8))
    monkeypatch.setattr(os, "getpid", lambda: 4)
    assert cores.plan_for("cpu").timed == {8, 9}
    shown.clear()
    assert cores.plan_for("interpreter").why == "not divided: nothing is timed by a clock here"


def test_the_driver_tells_where_each_gpu_is_on_the_bus():
    fake = FakeNvml(Board("GPU-a"), Board("GPU-b"))
    buses = {0: b"00000000:3B:00.0", 1: "00000000:5E:00.0"}
    rows = iter(buses.values())
    fake.nvmlDeviceGetPciInfo = lambda board: SimpleNamespace(busId=next(rows))
    assert bus_addresses(fake) == {"GPU-a": "00000000:3B:00.0", "GPU-b": "00000000:5E:00.0"}
    assert bus_addresses(None) == {}


def allowed(pid: int, name: str = "Cpus_allowed_list") -> str:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(row.split(":")[1].strip() for row in rows if row.startswith(name))


@pytest.fixture
def sleeper():
    """A process with a thread and a child of its own."""
    code = (
        "import os, sys, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "pid = os.fork()\n"
        "if pid: print(pid, flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        below = int(process.stdout.readline())
        yield process.pid, below
        os.kill(below, 9)
        process.kill()


needs_two = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")


@needs_two
def test_a_process_is_moved_with_its_threads_and_what_it_started(sleeper):
    pid, below = sleeper
    one = min(os.sched_getaffinity(0))
    assert move(pid, {one}, nice=3) == ""
    tasks = [*Path(f"/proc/{pid}/task").iterdir(), Path(f"/proc/{below}")]
    assert len(tasks) == 3 and {allowed(int(task.name)) for task in tasks} == {str(one)}
    assert {os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in tasks} == {
        max(3, os.getpriority(os.PRIO_PROCESS, 0))
    }
    assert move(1 << 22, {one}) == "", "who is gone is nobody's fault"


def test_only_what_is_asked_for_is_changed(sleeper, monkeypatch):
    pid, _ = sleeper
    before, asked = allowed(pid), []
    monkeypatch.setattr(os, "setpriority", lambda *row: asked.append(row))
    monkeypatch.setattr(os, "getpriority", lambda kind, tid: -5)
    assert move(pid, ()) == move(pid, os.sched_getaffinity(0)) == "" and not asked
    assert allowed(pid) == before


# -- in a bench --

PROBLEM = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.rand(64)]
def get_init_inputs():
    return []
"""


def halves() -> CorePlan:
    low, *rest = sorted(os.sched_getaffinity(0))
    return CorePlan(frozenset({low}), frozenset(rest))


@pytest.fixture(scope="module")
def divided():
    with Bench("cpu", cores=halves()) as bench:
        bench.facts()
        yield bench


class Boss:
    """Both ends of the referee's channel; what is asked is answered in between."""

    def __init__(self, mover: Mover, members) -> None:
        self.runner, theirs = Channel.pair()
        self.referee = Channel(theirs)
        self.mover, self.members = mover, members

    def send(self, message) -> None:
        self.referee.send(message)
        (asked,) = self.runner.pump()
        self.mover.answer(self.members, asked["time"], self.runner)

    def receive(self, timeout):
        return self.referee.receive(timeout)


@needs_two
@pytest.mark.bench
def test_children_begin_beside_and_are_on_the_processors_for_timing_while_they_are_timed(divided):
    plan = divided.cores
    with ChildGroup(LIMITS) as group:
        for name in ("candidate", "eager"):
            group.start(name, divided.server("plain"))
            group.read_layers(name)
        members = group.members
        while not all(child.pid and child.hear() for child in members.values()):
            divided.server("plain").pump()
        pids = {name: child.pid for name, child in members.items()}
        boss = Boss(Mover(plan), members)
        assert {allowed(pid) for pid in pids.values()} == {listed(plan.others)}
        with timed(boss, ["candidate", "eager"], 5) as placed:
            assert {allowed(pid) for pid in pids.values()} == {listed(plan.timed)} == {placed.where}
            assert placed.cpu_ms.keys() == {"candidate", "eager"} and min(placed.cpu_ms.values()) >= 0
        assert {allowed(pid) for pid in pids.values()} == {listed(plan.others)}
        place(boss, ["eager"], 5)
        assert place(boss, ["candidate"], 5).where == listed(plan.timed)
        assert (allowed(pids["eager"]), allowed(pids["candidate"])) == (listed(plan.others), listed(plan.timed))


def test_who_fails_while_it_is_timed_leaves_the_processors_for_timing(monkeypatch):
    asked = []
    monkeypatch.setattr(placing, "place", lambda boss, names, timeout: asked.append(list(names)))
    with pytest.raises(ZeroDivisionError), timed(None, ["candidate", "eager"], 5):
        raise ZeroDivisionError
    assert asked == [["candidate", "eager"], []]


def test_who_asks_too_often_gets_no_answer():
    runner, theirs = Channel.pair()
    referee, mover = Channel(theirs), Mover(CorePlan(why="not divided: why"))
    for _ in range(MOST_MOVES):
        mover.answer({}, ["nobody"], runner)
        assert Placed.from_json(referee.receive(1)) == Placed("not divided: why", {})
    mover.answer({}, ["nobody"], runner)
    with pytest.raises(JudgeError, match="did not say"):
        place(referee, [], 0.05)


WIDENS = """import ctypes, os
import torch
CORES = set(range(os.cpu_count() or 1))
class ModelNew(torch.nn.Module):
    def forward(self, x):
        for tid in map(int, os.listdir("/proc/self/task")):
            os.sched_setaffinity(tid, CORES)
        os.sched_setaffinity(os.getppid(), {0})
        print("allowed", open("/proc/self/status").read().split("Cpus_allowed_list:")[1].split()[0])
        return x + 1
"""


@needs_two
@pytest.mark.bench
def test_a_candidate_that_widens_its_own_set_or_another_gains_nothing(divided):
    before = allowed(divided.server("plain").process.pid)
    outcome = divided.evaluate(Job("widens", ProblemSpec(PROBLEM), WIDENS, limits=LIMITS, beat=float("inf")))
    if outcome.environment["children"]["candidate"]["seccomp"] != "active":
        pytest.skip("no filter here")
    said = {line.split()[1] for line in outcome.log.splitlines() if line.startswith("allowed")}
    assert outcome.verdict == "pass", outcome.message
    assert said == {listed(divided.cores.others), listed(divided.cores.timed)}
    assert allowed(divided.server("plain").process.pid) == before
    assert {timing.detail["cores"] for timing in outcome.timings} == {listed(divided.cores.timed)}
