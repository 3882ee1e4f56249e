"""Work counted instead of timed: the same number on a busy machine as on a quiet one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


class TooMuchWork(AssertionError):
    """More calls than the test allows."""


def calls_of(work: Callable[[], object], *, most: int = 10**9) -> int:
    """How many functions `work` calls in this thread, those of C included. Raises TooMuchWork beyond `most`."""
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1
            if count > most:
                sys.setprofile(None)
                raise TooMuchWork(f"more than {most:,} calls")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
