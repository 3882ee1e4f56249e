"""What the process that runs a problem's code takes, looked at from outside while it works. Standard library only."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from judge.bench.device.lock_table import Held, LockTable, keeping, waiting
from judge.bench.processes.children import Child
from judge.values import Limits

LOCKS_S = 0.25  # between two looks at the GPU's lock
USAGE_S = 1.0  # between two looks at files, processes and memory
MOST_FILES = 20_000
MOST_BYTES = 2 << 30  # in files
MOST_PROCESSES = 32  # beside the child itself
STAYING_FILES, STAYING_BYTES = 2_000, 256 << 20  # of one that waits for its next evaluation
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Broken:
    """A bound that the problem's code has broken: reason code, what it did, and what to change."""

    reason: str
    message: str
    fix: str


@dataclass(frozen=True)
class Usage:
    """Of one child: its files (with their bytes on disk), descendants, and bytes of memory beyond what all of them
    were forked with. Each is counted up to its bound and a little beyond."""

    files: int
    disk_bytes: int
    processes: int
    memory_bytes: int


class Watch:
    """Looks at the children of one evaluation. `table` is that of the GPU's lock; with `memory` their memory is
    counted, which no limit of the kernel does over several processes."""

    def __init__(
        self, limits: Limits, table: LockTable | None, *, memory: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits, self._table, self._memory, self._clock = limits, table, memory, clock
        self.waits = False  # for the GPU, at the last look
        self.waited_s = 0.0
        self._kept_since: float | None = None
        self._locks_at = self._usage_at = clock()

    def look(self, child: Child, *, begun: bool) -> Broken | None:
        """What the child that decides has broken by now, of the GPU's lock: nothing before it has `begun`, as it makes
        its context then. Cheap: most calls do nothing."""
        now = self._clock()
        if self._table is None or not child.pid or now - self._locks_at < LOCKS_S:
            return None
        passed, self._locks_at = now - self._locks_at, now
        broken = self.saw(self._table.held(), child.pid, passed)
        return broken if begun else None

    def beyond(self, members: Mapping[str, Child]) -> dict[str, Broken]:
        """Who has more files, processes or memory than one may have, by name. Cheap, too."""
        now = self._clock()
        if now - self._usage_at < USAGE_S:
            return {}
        self._usage_at = now
        found = {name: self._beyond(usage_of(child)) for name, child in members.items() if child.status is None}
        return {name: broken for name, broken in found.items() if broken is not None}

    def saw(self, held: list[Held], leader: int, passed_s: float) -> Broken | None:
        """Take note of the lock as it is; `passed_s` since the last look."""
        pids = {one.pid for one in held if one.pid == leader or session_of(one.pid) == leader}
        self.waits = waiting(held, pids)
        self.waited_s += passed_s if self.waits else 0.0
        if not keeping(held, pids):
            self._kept_since = None
            return None
        self._kept_since = self._clock() if self._kept_since is None else self._kept_since
        kept_s = self._clock() - self._kept_since
        if kept_s <= self._limits.stage_s:
            return None
        message = f"it kept the GPU from everybody else for {kept_s:.0f} s"
        return Broken("problem.keeps_gpu", message, "remove what locks files, and make the shapes smaller")

    def _beyond(self, usage: Usage) -> Broken | None:
        if usage.files > MOST_FILES or usage.disk_bytes > MOST_BYTES:
            message = f"it wrote more than {MOST_FILES:,} files or {MOST_BYTES >> 30} GiB"
            return Broken("problem.files", message, "remove what writes files")
        if usage.processes > MOST_PROCESSES:
            message = f"it started more than {MOST_PROCESSES} processes"
            return Broken("problem.processes", message, "remove what starts processes")
        if self._memory and usage.memory_bytes > self._limits.memory_mb << 20:
            message = f"it and the processes that it started take more than {self._limits.memory_mb:,} MiB"
            return Broken("problem.memory", message, "make the shapes smaller, and start no processes")
        return None


def fit_to_stay(child: Child) -> bool:
    """Whether a child leaves nothing at work, so that it may wait, stopped, for its next evaluation.

    It may share the GPU: a referee draws its next questions at once. Whoever stops it looks at the lock.
    """
    usage = usage_of(child)
    few = usage.files <= STAYING_FILES and usage.disk_bytes <= STAYING_BYTES
    return few and not usage.processes


def usage_of(child: Child) -> Usage:
    """As the kernel counts it."""
    files, disk_bytes = _files(child.folder)
    if not child.pid or child.status is not None:
        return Usage(files, disk_bytes, 0, 0)
    below = descendants(child.pid)
    given = _own_memory(_stat(child.pid, 1))
    memory = sum(max(0, _own_memory(pid) - given) for pid in (child.pid, *below))
    return Usage(files, disk_bytes, len(below), memory)


def descendants(pid: int) -> list[int]:
    """Processes below this one; one whose own parent died goes to the zygote, which ends it."""
    found: list[int] = []
    waiting_pids = [pid]
    while waiting_pids and len(found) <= 4 * MOST_PROCESSES:
        try:
            tasks = list(Path(f"/proc/{waiting_pids.pop()}/task").iterdir())
            below = [int(one) for task in tasks for one in (task / "children").read_text().split()]
        except OSError:  # it ended while we looked
            continue
        found += below
        waiting_pids += below
    return found


def memory_of(pids: Iterable[int]) -> int:
    """Bytes of memory of these processes that is no file's."""
    return sum(map(_own_memory, pids))


def session_of(pid: int) -> int:
    """The session that a process is in, which no child can leave; 0 when it is gone."""
    return _stat(pid, 3)


def _stat(pid: int, place: int) -> int:
    """A field behind the name in /proc/PID/stat: state, parent, group, session."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[place])
    except (OSError, ValueError, IndexError):
        return 0


def _own_memory(pid: int) -> int:
    """Bytes of memory that is no file's."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return max(0, int(resident) - int(shared)) * PAGE


def _files(folder: Path) -> tuple[int, int]:
    """How many entries lie below a folder, and their bytes on disk; neither is counted far beyond its bound."""
    count = size = 0
    places = [str(folder)]
    while places and count <= MOST_FILES and size <= MOST_BYTES:
        try:
            with os.scandir(places.pop()) as entries:
                for entry in entries:
                    count += 1
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        places.append(entry.path)
                    if count > MOST_FILES:
                        break
        except OSError:  # sealed or gone
            continue
    return count, size
