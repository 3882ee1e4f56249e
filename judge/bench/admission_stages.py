"""The stages of a preflight as they are told: one StageRecord each, a plain fix with every failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from judge.bench.sources import describe
from judge.values import StageRecord

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
    """Sends a record at the end of each stage and keeps them for the report."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.records: list[StageRecord] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[Note]:
        """One stage. A Refused raised inside is recorded as failed and passed on."""
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
    except (MemoryError, torch.cuda.OutOfMemoryError) as error:
        raise _out_of_memory(doing) from error
    except (Exception, SystemExit) as error:  # uploaded code may raise anything
        if isinstance(error, Refused):
            raise
        if "can't allocate memory" in str(error):
            raise _out_of_memory(doing) from error
        raise Refused(
            "problem.raises",
            f"{doing} raised {describe(error, path)}",
            f"Make {doing} run by itself with torch {torch.__version__}, then upload the file again.",
        ) from error


def _out_of_memory(doing: str) -> Refused:
    return Refused(
        "problem.raises",
        f"{doing} needs more memory than this device may use.",
        "Use smaller tensors, or a device with more memory.",
    )
