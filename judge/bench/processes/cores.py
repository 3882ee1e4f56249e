"""Which processors children run on: those that are being timed apart from all others. Standard library only.

The sets are derived from what this process may use and from the GPU's number, so that every bench of a GPU, in any
process, times on the same few processors, and no bench uses those of another GPU for anything else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from judge.bench.device.nvml import bus_addresses, entry_of
from judge.bench.processes.watching import descendants

LEAST = 4  # processors that are divided
WIDTH = 2  # processors that are timed on, at least: a driver's threads run beside the one that launches
NICE = 5  # of work beside what is timed where they share their processors
ROUNDS = 20  # looks for threads that were started while the others were moved
SYSTEM = Path("/sys/devices/system")
PCI = Path("/sys/bus/pci/devices")


@dataclass(frozen=True)
class CorePlan:
    """`timed`: where subjects are while they are timed; `others`: where every child is besides. Both are empty where
    the processors are not divided; `why` says so then."""

    timed: frozenset[int] = frozenset()
    others: frozenset[int] = frozenset()
    why: str = ""

    def __post_init__(self) -> None:
        if bool(self.timed) is not bool(self.others) or self.timed & self.others or bool(self.timed) is bool(self.why):
            raise ValueError("either two sets of processors that have none in common, or why there are none")

    @property
    def divided(self) -> bool:
        return bool(self.timed)


def plan_cores(
    place: int = 0,
    places: int = 1,
    *,
    allowed: Iterable[int] | None = None,
    nodes: Mapping[int, int] | None = None,
    system: Path = SYSTEM,
) -> CorePlan:
    """Sets for the bench of GPU number `place` out of `places` on this machine.

    `allowed`: processors that may be used; without it those of this process, which a cgroup's set bounds. `nodes`: NUMA
    node of a GPU by its number, where that is known. Each GPU has one physical core with its siblings, or two cores
    where they have none, in its node if there is one left; where half of the processors are not enough for that, GPUs
    share theirs.
    """
    if allowed is None:
        why = cannot_move()
        if why:
            return CorePlan(why=why)
        allowed = os.sched_getaffinity(0)
    usable = frozenset(allowed)
    left = _physical(usable, system)
    if len(usable) < LEAST or len(left) < 2:
        return CorePlan(why=f"not divided: {len(usable)} processors may be used, {LEAST} are needed")
    groups: list[frozenset[int]] = []
    for number in range(max(places, place + 1)):
        near = _listed(system / f"node/node{(nodes or {}).get(number, -1)}/cpulist")
        group = _taken(left, near)
        if groups and sum(map(len, (*groups, group))) > len(usable) // 2:
            break
        groups.append(group)
    return CorePlan(groups[place % len(groups)], usable - frozenset().union(*groups))


def plan_for(device: str) -> CorePlan:
    """Sets for a bench of this device. On a CPU bench, which has nobody to take turns with, the process decides."""
    addresses = bus_addresses()
    if device.startswith("cuda"):
        ordinal = int(device.partition(":")[2] or 0)
        uuids, shown = list(addresses), entry_of(ordinal)
        number = uuids.index(shown) if shown in uuids else ordinal
        nodes = {row: node for row, bus in enumerate(addresses.values()) if (node := node_of(bus)) is not None}
        return plan_cores(number, len(uuids), nodes=nodes)
    if device == "cpu":
        return plan_cores(os.getpid(), os.getpid() + 1)
    if not addresses:
        return CorePlan(why="not divided: nothing is timed by a clock here")
    return plan_cores(0, len(addresses))


def _taken(left: list[frozenset[int]], near: frozenset[int]) -> frozenset[int]:
    """WIDTH processors or a little more off `left`, from its end: the first ones serve most interrupts."""
    group: frozenset[int] = frozenset()
    while len(group) < WIDTH and len(left) > 1:
        core = ([core for core in left if core & near] or left)[-1]
        left.remove(core)
        group |= core
    return group


def _physical(usable: frozenset[int], system: Path) -> list[frozenset[int]]:
    """The processors by physical core, in order. One whose siblings are not known is a core of its own."""
    cores = {(_listed(system / f"cpu/cpu{one}/topology/thread_siblings_list") & usable) | {one} for one in usable}
    found: list[frozenset[int]] = []
    for core in sorted(cores, key=min):
        rest = core - frozenset().union(*found)
        found += [rest] if rest else []
    return found


def _listed(path: Path) -> frozenset[int]:
    """A list of the kernel, such as 0-3,8; nothing where it cannot be read."""
    try:
        return frozenset(parsed(path.read_text()))
    except (OSError, ValueError):
        return frozenset()


def parsed(text: str) -> list[int]:
    """Numbers of a list such as 0-3,8. Raises ValueError."""
    parts = (part.partition("-") for part in text.strip().split(",") if part)
    return [number for low, _, high in parts for number in range(int(low), int(high or low) + 1)]


def listed(cores: Iterable[int]) -> str:
    """The inverse of `parsed`."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def node_of(bus: str, pci: Path = PCI) -> int | None:
    """NUMA node of a device on the PCI bus by its address, as NVML or the kernel writes it; None where it has none."""
    try:
        node = int((pci / bus.lower()[-12:] / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def cannot_move() -> str:
    """Why processes cannot be moved here, as in some containers; "" where they can."""
    try:
        os.sched_setaffinity(0, os.sched_getaffinity(0))
    except OSError as error:
        return f"not divided: this process may choose no processors ({error.strerror})"
    return ""


def move(pid: int, cores: Iterable[int], nice: int = 0) -> str:
    """Put every thread of a process and of its descendants on `cores`, unless there are none, and make them nicer by
    as much as `nice` says. Returns why that failed; "" when it has worked, or the process is gone."""
    wanted = set(cores)
    try:
        for _ in range(ROUNDS):
            away = [tid for tid in _threads(pid) if not _placed(tid, wanted, nice)]
            if not away:
                return ""
            for tid in away:
                _put(tid, wanted, nice)
            time.sleep(0)
    except OSError as error:
        return f"its threads could not be moved ({error.strerror})"
    return "it starts threads faster than they can be moved"


def _threads(pid: int) -> list[int]:
    found = []
    for process in (pid, *descendants(pid)):
        try:
            found += [int(path.name) for path in Path(f"/proc/{process}/task").iterdir()]
        except OSError:  # it has ended
            continue
    return found


def _placed(tid: int, wanted: set[int], nice: int) -> bool:
    try:
        fits = not wanted or os.sched_getaffinity(tid) == wanted
        return fits and (not nice or os.getpriority(os.PRIO_PROCESS, tid) >= nice)
    except ProcessLookupError:
        return True


def _put(tid: int, wanted: set[int], nice: int) -> None:
    try:
        if wanted:
            os.sched_setaffinity(tid, wanted)
        if nice and os.getpriority(os.PRIO_PROCESS, tid) < nice:
            os.setpriority(os.PRIO_PROCESS, tid, nice)
    except ProcessLookupError:
        pass  # it has ended meanwhile
