"""Whether what the bench is doing is still wanted. The caller says how to find out; whatever waits in the bench asks.
Standard library only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from judge.values import Stopped

LOOK_S = 0.5  # between two looks; nothing in the bench may wait for longer without one


class _Watch:
    """`unwanted` asked at most once in LOOK_S: it may be a query."""

    def __init__(self, unwanted: Callable[[], bool], clock: Callable[[], float]) -> None:
        self._unwanted, self._clock = unwanted, clock
        self._next = clock()

    def look(self) -> None:
        now = self._clock()
        if now >= self._next:
            self._next = now + LOOK_S
            if self._unwanted():
                raise Stopped("the work is not wanted any more")


_watch: ContextVar[_Watch | None] = ContextVar("stopping", default=None)


@contextmanager
def stoppable(unwanted: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """What the bench does in the block ends with Stopped soon after `unwanted` says so."""
    token = _watch.set(_Watch(unwanted, clock))
    try:
        yield
    finally:
        _watch.reset(token)


def look() -> None:
    """Raises Stopped when the work is not wanted any more. Does nothing outside of `stoppable`."""
    watch = _watch.get()
    if watch is not None:
        watch.look()
