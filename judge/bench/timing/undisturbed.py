"""Keeps CUDA contexts from being made beside a measurement that would read it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from judge.bench.device.clocks import is_quiet
from judge.bench.device.gpu_lock import GpuLock


class Undisturbed(ExitStack):
    """One measurement, which holds the GPU of `lock` alone. Contexts are made beside it until `keep` is called.

    Sides that are measured by turns bear that as long as the GPU starts and ends kernels as quickly as an idle one:
    `disturbed` looks when a context is being made, and keeps further ones off where it does not.
    """

    def __init__(self, lock: GpuLock, device: str, tell: Callable[[str], bool] = is_quiet) -> None:
        super().__init__()
        self._lock, self._device, self._tell = lock, device, tell
        self._keeps = False

    def keep(self) -> None:
        """From now on no context is made until the measurement ends."""
        if not self._keeps:
            self._keeps = True
            self.enter_context(self._lock.without_contexts())

    def disturbed(self) -> bool:
        """Whether a context in the making slows the GPU down, so that what was read so far is of no use."""
        if self._keeps or not self._lock.contexts_are_made() or self._tell(self._device):
            return False
        self.keep()
        return True
