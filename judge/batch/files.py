"""The outcome file: appended to line by line, safe to continue after any interruption, one writer at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self


class Busy(Exception):
    """Somebody else writes this file."""


class OutcomeFile:
    """Use as a context manager. Raises Busy when another process has it open, OSError when it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._fd)
            raise Busy(f"another process writes {path}") from error
        self._drop_torn_end()

    def finished(self) -> set[tuple[str, str]]:
        """(id, nonce) of every job that has its outcome here."""
        return {key for key in map(_key, self._lines()) if key is not None}

    def append(self, line: bytes) -> None:
        """Write a line so that it is on the disk, whole, when this returns."""
        data = memoryview(line + b"\n")
        while data:
            data = data[os.write(self._fd, data) :]
        os.fsync(self._fd)

    def _lines(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            yield from file

    def _drop_torn_end(self) -> None:
        """Cut off what a killed writer left of its last line."""
        size = whole = 0
        for line in self._lines():
            size += len(line)
            if line.endswith(b"\n"):
                whole = size
        os.ftruncate(self._fd, whole)
        os.lseek(self._fd, whole, os.SEEK_SET)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)


def _key(line: bytes) -> tuple[str, str] | None:
    try:
        body = json.loads(line)
        return str(body["id"]), str(body["nonce"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
