"""What the runner itself sees of a child: its threads, its processes, its files. Nothing here is the child's word.

Standard library only. The referee asks {"look": name} and is answered {"seen": ...}; see `Seen`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from judge.bench.exchange.reports import MOST_CHILDREN, Threads
from judge.bench.exchange.wire import Channel, Message, WireClosed, WireTimeout
from judge.bench.processes.children import Child
from judge.bench.processes.plain_files import opened
from judge.values import JudgeError

LOOKS_EACH = 6  # whether a child has ended, where memory is short
MOST_LOOKS = 64 + LOOKS_EACH * MOST_CHILDREN
MOST_ROWS = 200
MOST_ENTRIES, MOST_DEPTH = 5000, 40
ANSWER_S = 5.0
STARTED = 19  # place of the start time in /proc/.../stat, counted from the state
# Folders of compilers and drivers, and what the bench itself writes; see the child's first steps.
CACHES = ("triton", "inductor", "cuda", "cache", "home/.triton", "home/.nv", "__pycache__", "tmp/torchinductor_judge")
OURS = ("candidate.py", "problem.py")


@dataclass(frozen=True)
class Seen:
    """Threads and further processes as (id, name); files outside the compilers' caches, relative to the folder.

    `late`: names of the threads that were not there yet when the child was about to load what it was given. A thread is
    known by its id and by when it started: ids are given again.
    """

    threads: tuple[tuple[int, str], ...]
    processes: tuple[tuple[int, str], ...]
    files: tuple[str, ...]
    late: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Seen:
        """Raises KeyError, TypeError or ValueError when malformed."""
        threads = tuple((int(number), str(name)) for number, name in row["threads"])
        processes = tuple((int(number), str(name)) for number, name in row["processes"])
        late = tuple(str(name) for name in row["late"])
        return cls(threads, processes, tuple(str(name) for name in row["files"]), late)


def look_at(child: Child) -> Message:
    """`Seen` of a child as JSON. One that has ended has nothing but files."""
    threads = threads_in(Path(f"/proc/{child.pid}/task")) if child.pid and child.status is None else []
    known = frozenset[tuple[int, int]]().union(*(said.known for said in child.hear()[1:] if isinstance(said, Threads)))
    return {
        "threads": [[number, name] for number, _, name in threads],
        "late": [name for number, started, name in threads if (number, started) not in known],
        "processes": _processes(child.pid) if child.pid and child.status is None else [],
        "files": _files(child.folder),
    }


def threads_in(folder: Path = Path("/proc/self/task")) -> list[tuple[int, int, str]]:
    """Threads of a process by its folder in /proc: id, when it started (clock ticks since boot), name."""
    found = []
    try:
        for path in islice(folder.iterdir(), MOST_ROWS):
            stat = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()
            found.append((int(path.name), int(stat[STARTED]), _name(path)))
    except OSError:  # it ended while we looked
        pass
    return found


def _processes(leader: int) -> list[tuple[int, str]]:
    """The leader's session without itself: no child can leave it."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == leader and int(path.name) != leader and state not in "ZX":
            found.append((int(path.name), _name(path)))
    return found[:MOST_ROWS]


def _name(path: Path) -> str:
    try:
        return (path / "comm").read_text(errors="replace").strip()[:40]
    except OSError:
        return ""


def _files(folder: Path) -> list[str]:
    """Some of them where there are many, and MOST_DEPTH folders down; never those behind a link."""
    found: list[str] = []
    waiting = [""]
    seen = 0
    while waiting and len(found) <= MOST_ROWS and seen < MOST_ENTRIES:
        place = waiting.pop()
        for name, is_folder in _entries(folder, place):
            seen += 1
            inside = os.path.normpath(f"{place}/{name}" if place else name)
            if not is_folder:
                found.append(inside[:200])
            elif inside not in CACHES and inside.count("/") < MOST_DEPTH:
                waiting.append(inside)
    return sorted(name for name in found if name not in OURS)[:MOST_ROWS]


def _entries(folder: Path, place: str) -> list[tuple[str, bool]]:
    """Names in `place` below the folder, and which are folders; each step there starts from the one before."""
    with ExitStack() as steps:
        here = steps.enter_context(opened(folder))
        for name in place.split("/") if place else ():
            here = steps.enter_context(opened(name, here)) if here is not None else None
        if here is None:  # sealed, gone, or a link by now
            return []
        with os.scandir(here) as entries:
            return [(one.name, one.is_dir(follow_symlinks=False)) for one in islice(entries, MOST_ENTRIES)]


class Inspector:
    """Answers the referee's looks, a bounded number of them: a hostile problem shares its process."""

    def __init__(self) -> None:
        self._looks = 0

    def answer(self, members: dict[str, Child], wanted: str, referee: Channel) -> None:
        self._looks += 1
        if self._looks > MOST_LOOKS:
            return
        child = members.get(wanted)
        try:
            referee.send({"seen": look_at(child)} if child else {"refused": "no such child"}, timeout=ANSWER_S)
        except (WireClosed, WireTimeout):
            pass  # how it ends says the rest


def look(boss: Channel, name: str, timeout: float) -> Seen:
    """The referee's side. Raises JudgeError."""
    boss.send({"look": name})
    try:
        return Seen.from_json(boss.receive(timeout)["seen"])
    except (KeyError, TypeError, ValueError) as error:
        raise JudgeError(f"the runner did not say what it sees of {name}") from error
