"""Plain files below a folder that somebody may still write to: found and read by descriptors, never through a link.

A path that is looked up twice can mean two things. Here a folder is opened once, by its name in the folder above, and
what is in it is reached from that descriptor alone. Standard library only.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath

from judge.bench.processes.children import OPEN

MOST_ENTRIES = 20_000
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class PlainFile:
    """A file as it was found, in `place` below the top. To be used while the iteration that gave it stands there."""

    place: PurePath
    name: str
    size: int
    folder: int  # descriptor

    def copy(self, into: Path) -> None:
        """No more of it than was announced; nothing when it is no plain file any more. Raises OSError."""
        data = read_plain(self.name, self.size, folder=self.folder)
        if data is not None:
            into.write_bytes(data)


def read_plain(path: Path | str, most: int, *, folder: int | None = None) -> bytes | None:
    """At most so many bytes of a plain file, None of anything else. Raises OSError, also for a link."""
    fd = os.open(path, READ, dir_fd=folder)
    with os.fdopen(fd, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(fd).st_mode) else None


@contextmanager
def opened(place: Path | str, above: int | None = None) -> Iterator[int | None]:
    """A descriptor of the folder, which may be a name in the folder `above`; None where there is none, or a link."""
    try:
        fd = os.open(place, OPEN, dir_fd=above)
    except OSError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def folders(top: Path, named: re.Pattern[str]) -> Iterator[tuple[str, int]]:
    """(name, descriptor) of the folders in `top` whose names match, by name."""
    with opened(top) as fd:
        for name in _entries(fd, named)[0] if fd is not None else ():
            with opened(name, fd) as folder:
                if folder is not None:
                    yield name, folder


def files(folder: int, named: re.Pattern[str]) -> list[PlainFile]:
    """The files in an open folder whose names match, by name."""
    return [PlainFile(PurePath(), name, size, folder) for name, size in _entries(folder, named)[1]]


def tree(top: Path, named: re.Pattern[str], depth: int) -> Iterator[PlainFile]:
    """The files below `top`, at most `depth` folders down, where all names on the way match."""
    with opened(top) as fd:
        if fd is not None:
            yield from _below(fd, named, depth, PurePath())


def _below(folder: int, named: re.Pattern[str], depth: int, place: PurePath) -> Iterator[PlainFile]:
    below, here = _entries(folder, named)
    yield from (PlainFile(place, name, size, folder) for name, size in here)
    for name in below if depth > 0 else ():
        with opened(name, folder) as fd:
            if fd is not None:
                yield from _below(fd, named, depth - 1, place / name)


def _entries(folder: int, named: re.Pattern[str]) -> tuple[list[str], list[tuple[str, int]]]:
    """Names of folders, and names and sizes of plain files; MOST_ENTRIES of both."""
    found: tuple[list[str], list[tuple[str, int]]] = ([], [])
    with os.scandir(folder) as entries:
        for entry in islice(entries, MOST_ENTRIES):
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:  # it is gone
                continue
            if not named.fullmatch(entry.name):
                continue
            if stat.S_ISDIR(status.st_mode):
                found[0].append(entry.name)
            elif stat.S_ISREG(status.st_mode):
                found[1].append((entry.name, status.st_size))
    return sorted(found[0]), sorted(found[1])
