"""Compiles every kernel a candidate launches for a chosen GPU, down to machine code, without a GPU.

The candidate runs on CPU tensors; Triton specialises, autotunes and compiles as it would on the target; nothing is
executed, so tensors a kernel should have filled read as zero. Compilers work in forked processes, side by side: a
launch goes on at once, its machine code is awaited at the end. For a process without TRITON_INTERPRET.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from triton.runtime.errors import OutOfResources

from judge.bench.compiling.messages import clean, describe
from judge.bench.exchange.uncomputed import Uncomputed, is_part_of_large
from judge.bench.interpreting.kernel_code import Codes
from judge.bench.interpreting.targets import Target
from judge.bench.interpreting.tuning_record import Group, chosen, dropped_row, fits, group_row
from judge.bench.processes.pool import Pool, Ticket, default_workers

COMPILE_S = 30.0
TUNING_S = 20.0
GLANCE_S = 5.0
KERNEL_LIMIT = 1000
READ_LIMIT = 10_000
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_READS = {
    torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.__bool__, torch.Tensor.__int__, torch.Tensor.__float__,
    torch.Tensor.__index__, torch.Tensor.numpy, torch.Tensor.__array__, torch.equal, torch.allclose, torch.is_nonzero,
}  # fmt: skip
REASONS = ("compile.error", "compile.resources", "compile.incomplete", "compile.timeout")


class CompileFailed(Exception):
    """A kernel does not compile for the target; `reason` is one of REASONS."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass
class Launch:
    """One launch in order: its row is complete once the ticket is settled. `group` when it was autotuned."""

    row: dict[str, Any]
    ticket: Ticket
    guessed: bool  # the way here depended on values that nobody computed
    group: Group | None = None


class Recorder:
    """What was compiled: `kernels` in launch order, `tuned` the configurations tried, `notes` what was left out.

    A row has name, grid, num_warps, num_stages, regs, spills, shared_bytes and error (None when it compiled).
    """

    def __init__(self, target: Target, clock: Callable[[], float] = time.monotonic, workers: int | None = None) -> None:
        self.target = target
        self.clock = clock
        self.workers = workers or default_workers()
        self.uncomputed = Uncomputed()
        self._shaping: AbstractContextManager[Any] = self.uncomputed
        self.pool = Pool(self.workers, self.clock)
        self.reset()

    def reset(self) -> None:
        """Forget what was recorded, and give up on what has not been compiled."""
        self.pool.close()  # a kernel whose ticket is dropped is compiled anew when it is launched again
        self._ended = False
        self.codes: Codes = {}  # what was launched and not refused at once
        self.kernels: list[dict[str, Any]] = []
        self.tuned: list[dict[str, Any]] = []
        self.groups: list[Group] = []
        self.notes: list[str] = []
        self.launchers: list[dict[str, Any]] = []
        self.failure: CompileFailed | None = None
        self.pool = Pool(self.workers, self.clock)
        self.tuning: Group | None = None
        self._launches: list[Launch] = []
        self._reads = 0
        self._began = self.clock()

    def resume(self) -> None:
        """Before a launch: what comes after a recording, as in `prepare()`, belongs to the next one."""
        if self._ended:
            self.reset()

    def begin(self) -> None:
        """Compute nothing large from here on, for good: also not while the candidate is imported and constructed."""
        self._shaping = nullcontext()
        self.uncomputed.__enter__()

    @property
    def launches(self) -> int:
        return len(self._launches)

    @property
    def guesses(self) -> bool:
        """Whether Python has looked at values that nobody computed: where it went since may be wrong."""
        return self._reads > 0

    @contextmanager
    def recording(self) -> Iterator[Recorder]:
        """Run a candidate's forward within it. Raises CompileFailed, also when the candidate swallowed the failure.

        Launches since the last recording, in the constructor or in `prepare()`, are recorded with it.
        An error of the candidate before its first launch passes through; after it, values that no kernel computed may
        be the cause, so it becomes compile.incomplete.
        """
        self.resume()
        self._began = self.clock()
        tempfile.tempdir = os.environ.get("TMPDIR")
        try:
            with self._shaping, _Reads(self):
                yield self
            self._settle()
        except CompileFailed:
            self._settle(2.0)  # other kernels' rows are worth a moment
            raise
        except Exception as error:
            self._settle()
            if self.failure is None and self.launches == 0 and not self.guesses:
                raise
            raise self.failure or self._incomplete(error) from error
        finally:
            self.pool.close()
            self._ended = True
        if self.failure is not None:
            raise self.failure

    def _incomplete(self, error: Exception) -> CompileFailed:
        detail = clean(f"{type(error).__name__}: {error}")
        if self.launches == 0:
            message = f"after forward looked at values that compiling does not know it raised {detail}"
        else:
            message = (
                f"forward depends on values a kernel computes, which compiling alone does not know: "
                f"after {self.launches} launches it raised {detail}"
            )
        return CompileFailed("compile.incomplete", message)

    # -- called by the patched Triton --------------------------------------------------------------------------------

    def on_launch(self, row: dict[str, Any], ticket: Ticket) -> None:
        """A launch, or a configuration that the autotuner tries."""
        if self.tuning is not None:
            self.tuning.try_now(row, ticket)
            return
        self.pool.start()
        if self.launches >= KERNEL_LIMIT * 100:
            raise self.fail(CompileFailed("compile.incomplete", f"{self.launches:,} launches in one forward"), "")
        group = next((group for group in self.groups if ticket in group.tickets()), None)
        self._launches.append(Launch(row, ticket, self.guesses, group))
        if any(size > limit for size, limit in zip(row["grid"], _GRID_LIMITS, strict=True)):
            message = f"grid {tuple(row['grid'])} of {row['name']}: at most {_GRID_LIMITS}"
            raise self.fail(CompileFailed("compile.resources", message), "")

    def fail(self, error: BaseException, path: str, diagnostics: str = "") -> CompileFailed:
        """The failure for an error of Triton; the first one of a recording is kept."""
        if isinstance(error, CompileFailed):
            failure = error
        else:
            reason = "compile.resources" if isinstance(error, OutOfResources) else "compile.error"
            failure = CompileFailed(reason, describe(error, path, diagnostics))
        return self._keep(failure, guessed=self.guesses)

    def _keep(self, failure: CompileFailed, *, guessed: bool) -> CompileFailed:
        if guessed and failure.reason != "compile.incomplete":
            failure = CompileFailed(
                "compile.incomplete", f"after forward looked at values that compiling does not know: {failure.message}"
            )
        self.failure = self.failure or failure
        return failure

    def read_back(self, tensor: torch.Tensor) -> None:
        """Python looks at a value: note it when nobody computed it, and stop loops that wait for a kernel's result."""
        if self.launches == 0 and self.uncomputed.skipped == 0 and not is_part_of_large(tensor):
            return
        if self._reads == 0:
            self.notes.append("forward reads values back after a launch; the path taken may differ on a GPU")
        self._reads += 1
        if self._reads > READ_LIMIT:
            message = f"forward read values back {READ_LIMIT} times; it waits for what a kernel computes"
            raise self._keep(CompileFailed("compile.incomplete", message), guessed=True)

    def await_one(self, ticket: Ticket, name: str) -> None:
        """Until that kernel is machine code. Raises CompileFailed."""
        if not self.pool.wait([ticket], self._began + COMPILE_S):
            raise self.fail(CompileFailed("compile.timeout", f"{name} was not compiled within {COMPILE_S:.0f} s"), "")
        if not fits(ticket):
            raise self._keep(_failure_of(ticket), guessed=self.guesses)

    # -- the end ----------------------------------------------------------------------------------------------------

    def _settle(self, patience_s: float = COMPILE_S) -> None:
        """Await what was launched and what the autotuners tried, at most so long from now; write the rows."""
        end = min(self._began + COMPILE_S, self.clock() + patience_s)
        for group in self.groups:
            self._settle_group(group, end)
        self.pool.wait([launch.ticket for launch in self._launches], end)
        for launch in self._launches:
            self._settle_launch(launch)
        self.kernels = [launch.row for launch in self._launches[:KERNEL_LIMIT]]

    def _settle_group(self, group: Group, end: float) -> None:
        self.pool.wait(group.tickets(), min(end, group.began + TUNING_S))
        self.pool.wait(group.tickets(), end, enough=fits)
        late = [ticket for ticket in group.tickets() if not ticket.settled]
        self.pool.drop(late)
        self._glance(late)
        group.late = sum(ticket.result is None for ticket in late)
        for row, ticket in group.tried:
            row.update(_found(ticket) if fits(ticket) else dropped_row(_why(ticket)))
            self.tuned.append(row)
            if ticket.result and not fits(ticket) and not ticket.result.get("drops"):
                self._keep(_failure_of(ticket), guessed=group.guessed)
        self.notes += group.notes(TUNING_S)

    def _glance(self, late: list[Ticket]) -> None:
        """What nobody had time to compile may be wrong at first sight, and the autotuner would stumble over it."""
        looks = {ticket: self.pool.submit(ticket.glance) for ticket in late if ticket.glance is not None}
        self.pool.wait(looks.values(), self.clock() + GLANCE_S)
        self.pool.drop(looks.values())
        for ticket, look in looks.items():
            if look.result is not None and "reason" in look.result:
                ticket.result = look.result

    def _settle_launch(self, launch: Launch) -> None:
        ticket = launch.ticket
        if launch.group is not None:
            launch.row["configs"] = launch.group.total
            taken = chosen(launch.group, ticket)
            if taken is not None:
                launch.row.update(taken)
                return
        if fits(ticket):
            launch.row.update(_found(ticket))
            launcher = (ticket.result or {}).get("launcher")
            if launcher is not None and launcher not in self.launchers:
                self.launchers.append(launcher)
            return
        launch.row["error"] = _why(ticket)
        if launch.group is not None and launch.group.tried:
            self._keep(_unfit(launch.group), guessed=launch.guessed)
        elif ticket.result is None:
            message = f"{launch.row['name']} was not compiled within {COMPILE_S:.0f} s"
            self._keep(CompileFailed("compile.timeout", message), guessed=launch.guessed)
        else:
            self._keep(_failure_of(ticket), guessed=launch.guessed)

    def tuning_groups(self) -> list[dict[str, Any]]:
        """What became of each autotuner's list, for the child that tunes and for the page."""
        return [group_row(group) for group in self.groups]


def _found(ticket: Ticket) -> dict[str, Any]:
    assert ticket.result is not None
    return dict(ticket.result["row"])


def _failure_of(ticket: Ticket) -> CompileFailed:
    assert ticket.result is not None
    return CompileFailed(str(ticket.result.get("reason", "compile.error")), _why(ticket))


def _unfit(group: Group) -> CompileFailed:
    """No configuration of a list can be launched. Only where all were compiled does the list itself bear the blame."""
    count = f"{group.kernel}: none of {group.total} configurations"
    if group.late == len(group.tried):
        return CompileFailed("compile.timeout", f"{count} was compiled within {COMPILE_S:.0f} s; offer smaller ones")
    if group.late:
        message = f"{count} is known to fit, but {group.late} were not compiled within {COMPILE_S:.0f} s"
        return CompileFailed("compile.incomplete", message)
    least = min(group.tickets(), key=lambda ticket: ticket.effort)
    failure = _failure_of(least)
    return CompileFailed(failure.reason, f"{count} can be launched; the smallest: {failure.message}")


def _why(ticket: Ticket) -> str:
    if ticket.result is None:
        return "not compiled in time"
    died = ticket.result.get("died")
    return f"the compiler ended with {died}" if died else str(ticket.result.get("error", ""))


class _Reads(TorchFunctionMode):  # type: ignore[misc]
    """Tells the recorder when Python looks at a tensor's values."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _READS and args and isinstance(args[0], torch.Tensor):
            self.recorder.read_back(args[0])
        return func(*args, **(kwargs or {}))
