"""Why a child was killed: SIGKILL says neither who sent it nor for what. Standard library only.

The kernel counts the processes that it ends for lack of memory: by control group, where this one is in a group that can
be read, else for the whole machine. A kill that the count does not explain was no lack of memory. Where nothing counts
(kernels before 4.13, some sandboxes), one that nobody of ours sent is taken for it, as no verdict blames memory.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_GROUP = re.compile(r"^\d+:(memory|):(/.*)$", re.MULTILINE)
_PLACES = {"": ("", "memory.events"), "memory": ("memory", "memory.oom_control")}  # of versions 2 and 1


class Cause(StrEnum):
    """What a SIGKILL was for; NONE: another process or itself, or no SIGKILL."""

    NONE = ""
    MEMORY = "memory"
    TIME = "processor time"
    JUDGE = "judge"


def oom_kills(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """How many processes of this control group, or else of the machine, the kernel has ended for lack of memory so
    far; None where nothing says."""
    for kind, path in sorted(_GROUP.findall(_text(proc / "self" / "cgroup"))):
        folder, name = _PLACES[kind]
        for place in (path.lstrip("/"), ""):  # a container sees its own group as the root
            found = _COUNT.search(_text(groups / folder / place / name))
            if found:
                return int(found[1])
    found = _COUNT.search(_text(proc / "vmstat"))
    return int(found[1]) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


class Kills:
    """Explains each counted kill once. `count` is `oom_kills`, or what stands for it."""

    def __init__(self, count: Callable[[], int | None] = oom_kills) -> None:
        self._count = count
        self._before: dict[int, int | None] = {}  # by child: the count when it was started
        self._explained = 0  # the count, as far as children that ended account for it

    def started(self, number: int) -> None:
        self._before[number] = self._count()

    def cause(self, number: int, status: int, *, by_judge: bool, cpu_s: float, limit_s: float) -> Cause:
        """Of a child that ended with this wait status and had used `cpu_s` of `limit_s` seconds of processor time."""
        before = self._before.pop(number)
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            return Cause.NONE
        if by_judge:
            return Cause.JUDGE
        now = self._count()
        if before is not None and now is not None and now > max(before, self._explained):
            self._explained = max(before, self._explained) + 1
            return Cause.MEMORY
        if cpu_s >= limit_s:
            return Cause.TIME
        return Cause.MEMORY if before is None or now is None else Cause.NONE
