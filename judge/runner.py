"""Starts, bounds, talks to and kills the bench children. Standard library only; never imports torch."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from judge.values import AdmissionReport, Job, Limits, Outcome, ProblemSpec, StageRecord

Progress = Callable[[StageRecord], None]


class Bench:
    """One device's bench: a zygote with torch and triton preloaded, and one-shot sandboxed children.

    `device` is "interpreter" or "cuda:N". Use as a context manager, or call `close`. Not thread-safe: one per worker.
    Raises JudgeError when the bench itself fails; a bad candidate or problem is a value.
    """

    def __init__(self, device: str, *, target: str = "sm_90") -> None:
        self.device = device
        self.target = target

    def admit(
        self, problem: ProblemSpec, *, limits: Limits = Limits(), progress: Progress | None = None
    ) -> AdmissionReport:
        """Preflight: parse, import, shapes, reference run, op graph, FLOPs, bytes, degeneracy. Calls `progress` per stage."""
        raise NotImplementedError

    def evaluate(self, job: Job, *, progress: Progress | None = None) -> Outcome:
        """Judge one candidate. Always returns an Outcome; a hung or dead child is a verdict too."""
        raise NotImplementedError

    def facts(self) -> dict[str, object]:
        """Device, toolchain and sandbox facts for the environment fingerprint and the fleet page."""
        raise NotImplementedError

    def close(self) -> None:
        """Kill every descendant and remove private folders. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
