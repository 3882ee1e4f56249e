"""The stages of a preflight as they are reported: one StageRecord each, with a fix for every failure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from judge.bench.foreign.faults import cause_of, kind_of
from judge.bench.foreign.sources import describe
from judge.bench.foreign.whereabouts import KEEP_IN_RANGE
from judge.bench.judging.memory_plan import JUDGING
from judge.values import StageRecord


def described(value: Any) -> tuple[dict[str, Any], ...]:
    """One row per leaf: shape and dtype of a tensor, the value of anything else."""
    return tuple(
        {"shape": list(leaf.shape), "dtype": str(leaf.dtype).removeprefix("torch.")}
        if isinstance(leaf, torch.Tensor)
        else {"value": repr(leaf)[:80]}
        for leaf in pytree.tree_leaves(value)
    )


def short(row: dict[str, Any]) -> str:
    """`float32 [4, 8]`, or the value of what is no tensor."""
    return f"{row['dtype']} {row['shape']}" if "shape" in row else str(row["value"])


def listed(operators: list[str], limit: int = 6) -> str:
    """Names of ATen overloads in order, each once, without their prefix."""
    names = list(dict.fromkeys(op.removeprefix("aten.").split(".")[0] for op in operators))
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")


def si(value: float) -> str:
    """Three digits and the prefix of a unit: `1.5 G`."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {prefix}"
    return f"{value:.3g} "


MEMORY = "problem.memory"
_ASKED = re.compile(r"[Tt]ried to allocate ([\d.]+ \w+)")  # in torch's messages, of GPUs and of the CPU
_HAS = re.compile(r"total capacity of ([\d.]+ \w+)")
Send = Callable[[StageRecord], None]


class Refused(Exception):
    """The problem cannot be judged here: reason code, what is wrong, and what to change."""

    def __init__(self, reason: str, message: str, fix: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.fix = fix


class Note:
    """What a running stage wants to say: a detail, and a warning with its fix."""

    def __init__(self) -> None:
        self.detail = ""
        self.fix = ""
        self.state = "ok"

    def warn(self, detail: str, fix: str = "") -> None:
        self.state, self.detail, self.fix = "warned", detail, fix

    def skip(self, detail: str) -> None:
        self.state, self.detail = "skipped", detail


class Stages:
    """Tells when a stage begins, sends a record at its end and keeps them for the report."""

    def __init__(self, send: Send, begins: Callable[[str], None]) -> None:
        self._send = send
        self._begins = begins
        self.records: list[StageRecord] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[Note]:
        """One stage. A Refused raised inside is recorded as failed and passed on."""
        self._begins(name)
        note, started = Note(), time.perf_counter()
        try:
            yield note
        except Refused as refusal:
            self._record(name, "failed", started, refusal.message, refusal.fix)
            raise
        self._record(name, note.state, started, note.detail, note.fix)

    def _record(self, name: str, state: str, started: float, detail: str, fix: str) -> None:
        record = StageRecord(name, state, (time.perf_counter() - started) * 1e3, detail, fix)
        self.records.append(record)
        self._send(record)


@contextmanager
def problem_code(doing: str, path: Path) -> Iterator[None]:
    """Runs a part of the problem's own code: whatever it raises becomes a Refused that shows its line."""
    try:
        yield
    except Refused:
        raise
    except (Exception, SystemExit) as error:  # uploaded code may raise anything
        raise _refusal(doing, path, error) from error


def _refusal(doing: str, path: Path, error: BaseException) -> Refused:
    kind = kind_of(error)
    if kind == "oom":
        asked, has = _ASKED.search(str(error)), _HAS.search(str(error))
        wanted = f" It asked for {asked[1]} more when there was no more." if asked else ""
        wanted += f" The device has {has[1]} in all." if has else ""
        if str(error).startswith(JUDGING):  # our own words
            wanted = f" {str(error)[0].upper()}{str(error)[1:]}."
        return Refused(
            MEMORY,
            f"{doing} needs more memory than this device may use.{wanted}",
            "Use smaller tensors, or a device with more memory.",
        )
    if kind == "device":
        return Refused("problem.raises", f"{cause_of(error)}.", KEEP_IN_RANGE)
    return Refused(
        "problem.raises",
        f"{doing} raised {describe(error, path)}",
        f"Make {doing} run by itself with torch {torch.__version__}, then upload the file again.",
    )
