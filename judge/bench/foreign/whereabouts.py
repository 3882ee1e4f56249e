"""Whose code a child is in: said on the private channel before the problem's own code is entered and when it is back.

If the child then hangs, is killed or loses its device, the runner can name the place. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from judge.bench.exchange.wire import Message

IMPORT = "the import"
CASES = "get_cases()"
INIT_INPUTS = "get_init_inputs()"
MODEL = "Model(...)"
INPUTS = "get_inputs()"
FORWARD = "Model.forward"
PLACES = (IMPORT, CASES, INIT_INPUTS, MODEL, INPUTS, FORWARD)

KEEP_IN_RANGE = "Keep indices and values in range inside forward, for example with clamp, whatever the inputs hold."

Result = TypeVar("Result")


class DeviceLost(Exception):
    """The problem's code left the device in an error that stays: no later call of this process can use it."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(f"{place} broke the GPU's context: {message.partition(chr(10))[0].strip()}")
        self.place = place


class Whereabouts:
    """Tells `send` where the child is. `settle` waits for the device and raises RuntimeError for what failed on it.

    A device works on after a call has returned; waiting inside the place is what attributes its errors and its hangs.
    """

    def __init__(
        self, send: Callable[[Message], None] = lambda message: None, settle: Callable[[], None] = lambda: None
    ) -> None:
        self._send = send
        self._settle = settle
        self._depth = 0  # places within places
        self.let_pass: Callable[[], None] = lambda: None  # called before a place is entered, the device at rest
        self.stage = ""  # the one that runs
        self.last = ""  # the place entered last

    def doing(self, stage: str) -> None:
        """A stage begins."""
        self.stage = stage
        self._send({"doing": stage})

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """Nothing is reported in the block: nobody reads, and a channel takes only so much before its writer waits."""
        send, self._send = self._send, lambda message: None
        try:
            yield
        finally:
            self._send = send

    @contextmanager
    def inside(self, place: str) -> Iterator[None]:
        """The problem's code runs in the block. Raises DeviceLost in place of an error that broke the device.

        What our own work before it left on the device is waited for first: it is not the problem's.
        """
        self._settle()
        if not self._depth:
            self.let_pass()
        self._send({"inside": place})
        self.last = place
        self._depth += 1
        try:
            yield
            self._settle()
        except Exception as error:
            if self.device_lost():
                raise DeviceLost(place, str(error)) from error
            raise
        finally:
            self._depth -= 1
            self._send({"inside": ""})

    def declared(self, place: str, function: Callable[..., Result]) -> Callable[..., Result]:
        """`function`, with every call declared as `place`."""

        def call(*args: Any, **kwargs: Any) -> Result:
            with self.inside(place):
                return function(*args, **kwargs)

        return call

    def device_lost(self) -> bool:
        """Whether the device takes nothing more from this process. Errors that a process survives are reported once."""
        try:
            self._settle()
        except RuntimeError:
            return True
        return False


SILENT = Whereabouts()
