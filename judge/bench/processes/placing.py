"""Who is being timed, and where: the referee says it, the runner moves the children. Standard library only.

The referee asks {"time": [names]} on its private channel. Those children are moved to the processors that a bench times
on, and whoever was there before leaves them. It is answered {"placed": ..., "cpu_ms": {name: ...}}; see `Placed`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judge.bench.exchange.wire import Channel, Message, WireClosed, WireTimeout
from judge.bench.processes.children import Child
from judge.bench.processes.cores import CorePlan, listed
from judge.bench.processes.watching import descendants
from judge.values import JudgeError

MOST_MOVES = 4096  # of one evaluation: a hostile problem shares the referee's process
ANSWER_S = 5.0
TICKS_PER_MS = os.sysconf("SC_CLK_TCK") / 1000
USER, SYSTEM = 11, 12  # places of the processor times in /proc/.../stat, counted from the state


@dataclass(frozen=True)
class Placed:
    """`where`: the processors, as the kernel lists them, or why the children could not be moved. `cpu_ms`: processor
    time of each of them so far, with what they have started, by name."""

    where: str = ""
    cpu_ms: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Placed:
        """Raises KeyError, TypeError or ValueError when malformed."""
        return cls(str(row["placed"]), {str(name): float(ms) for name, ms in row["cpu_ms"].items()})


class Mover:
    """Moves the children of one evaluation, a bounded number of times."""

    def __init__(self, plan: CorePlan) -> None:
        self._plan = plan
        self._timed: tuple[str, ...] = ()
        self._moves = 0

    def answer(self, members: Mapping[str, Child], wanted: Sequence[str], referee: Channel) -> None:
        self._moves += 1
        if self._moves > MOST_MOVES:
            return  # no honest referee asks so often; silence costs it its own time
        failed = [self._move(members, name, self._plan.others) for name in self._timed if name not in wanted]
        failed += [self._move(members, name, self._plan.timed) for name in wanted]
        self._timed = tuple(wanted)
        where = self._plan.why or next(filter(None, failed), "") or listed(self._plan.timed)
        times = {name: cpu_ms(members[name]) for name in wanted if name in members}
        answer: Message = {"placed": where, "cpu_ms": times}
        try:
            referee.send(answer, timeout=ANSWER_S)
        except (WireClosed, WireTimeout):
            pass  # how it ends says the rest

    def _move(self, members: Mapping[str, Child], name: str, cores: frozenset[int]) -> str:
        child = members.get(name)
        if not self._plan.divided or child is None or child.status is not None:
            return ""
        return child.server.place(child, cores)


def cpu_ms(child: Child) -> float:
    """Processor time of a child and of what it has started, in milliseconds; 0 for one that is gone."""
    if not child.pid or child.status is not None:
        return 0.0
    return sum(_ticks(pid) for pid in (child.pid, *descendants(child.pid))) / TICKS_PER_MS


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[USER]) + int(fields[SYSTEM])
    except (OSError, ValueError, IndexError):
        return 0


def place(boss: Channel, names: Sequence[str], timeout: float) -> Placed:
    """The referee's side: these are timed from now on, and nobody else. Raises JudgeError."""
    boss.send({"time": list(names)})
    try:
        return Placed.from_json(boss.receive(timeout))
    except (WireTimeout, KeyError, TypeError, ValueError, AttributeError) as error:
        raise JudgeError("the runner did not say where children are timed") from error


@contextmanager
def timed(boss: Channel, names: Sequence[str], timeout: float) -> Iterator[Placed]:
    """Have them on the processors for timing as long as the block lasts. Raises JudgeError."""
    try:
        yield place(boss, names, timeout)
    finally:  # a baseline's child may stay for the next evaluation
        place(boss, (), timeout)
