"""What became of one autotuner's list of configurations while it was compiled. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from judge.bench.processes.pool import Ticket

Row = dict[str, Any]


@dataclass(eq=False)
class Group:
    """One list for one key. `offered` are the configurations handed to the compiler, in the autotuner's order."""

    kernel: str
    key: str
    total: int
    offered: list[str]
    began: float
    guessed: bool
    tried: list[tuple[Row, Ticket]] = field(default_factory=list)
    current: str = ""  # the configuration being tried
    effort: float = 0.0  # of compiling it, beside others of the list
    late: int = 0

    def try_now(self, row: Row, ticket: Ticket) -> None:
        """The current configuration was launched: its compiler works under this ticket."""
        self.tried.append(({**row, "config": self.current}, ticket))

    def tickets(self) -> list[Ticket]:
        return [ticket for _, ticket in self.tried]

    def notes(self, limit_s: float) -> list[str]:
        """What was left out, in words."""
        found = []
        if self.total > len(self.offered):
            left_out = self.total - len(self.offered)
            found.append(f"{self.kernel}: {left_out} of {self.total} configurations not compiled")
        if self.late:
            found.append(
                f"{self.kernel}: configurations after {limit_s:.0f} s not compiled: {self.late} of {self.total}"
            )
        return found


def tuning_key(tuner: Any, kwargs: Any) -> str:
    """What Triton's autotuner keeps a choice for: the key's values and the types of the tensors."""
    given = {name: value for name, value in {**tuner.nargs, **kwargs}.items() if name in tuner.arg_names}
    values = [given[name] for name in tuner.keys if name in given]
    return str((*values, *(str(value.dtype) for value in given.values() if hasattr(value, "dtype"))))


def chosen(group: Group, launched: Ticket) -> Row | None:
    """The row of the launched configuration; of the first that fits where that one does not: nothing is timed."""
    fitting = [(row, ticket) for row, ticket in group.tried if fits(ticket)]
    own = [dict(row) for row, ticket in fitting if ticket is launched]
    return next(iter([*own, *(dict(row) for row, _ in fitting)]), None)


def dropped_row(why: str) -> Row:
    return {"regs": None, "spills": None, "shared_bytes": None, "error": why}


def group_row(group: Group) -> Row:
    """Counts and names as plain JSON: `compiled` are the configurations that may be timed."""
    compiled = [str(row["config"]) for row, ticket in group.tried if fits(ticket)]
    return {
        "kernel": group.kernel,
        "key": group.key,
        "total": group.total,
        "compiled": compiled,
        "over_limit": group.total - len(group.offered),
        "late": group.late,
        "unfit": len(group.tried) - group.late - len(compiled),
        "first": group.offered[0] if group.offered else "",
        "chosen": compiled[0] if compiled else "",
    }


def fits(ticket: Ticket) -> bool:
    """Whether the work ended in machine code that the target can run."""
    return ticket.result is not None and "row" in ticket.result
