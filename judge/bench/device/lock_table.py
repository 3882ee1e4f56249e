"""Who holds a GPU's lock and who waits for it, as the kernel says: no child's word. Standard library only."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from judge.bench.device.gpu_lock import GPU, MAKING

TABLE = Path("/proc/locks")
MARK = 7  # a byte of the lock file that nobody else locks: it tells how the table names the file
TRIES = 5  # record locks are the process's: another thread that closes the file takes the mark away
_marking = threading.Lock()


@dataclass(frozen=True)
class Held:
    """One record lock: `pid` holds `byte`, or waits for it; `alone`: as the only one."""

    pid: int
    byte: int
    alone: bool
    waits: bool


class LockTable:
    """The kernel's table of one lock file, open at `fd`. Where it cannot be read, nobody holds and nobody waits."""

    def __init__(self, fd: int, table: Path = TABLE) -> None:
        self._table = table
        self._name = self._named(fd)

    def _named(self, fd: int) -> str:
        """The file's name in the table, such as "fe:00:1474578"; on overlays stat tells another one."""
        for _ in range(TRIES):
            try:
                with _marking:
                    rows = self._marked(fd)
            except OSError:  # somebody has locked that byte alone, or there is no table
                break
            if len(rows) == 1:
                return rows[0][-3]
        about = os.fstat(fd)
        return f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"

    def _marked(self, fd: int) -> list[list[str]]:
        own = str(os.getpid())
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, MARK, os.SEEK_SET)
        rows = [row for row in self._rows() if row[-2:] == [str(MARK), str(MARK)] and row[-4] == own]
        fcntl.lockf(fd, fcntl.LOCK_UN, 1, MARK, os.SEEK_SET)
        return rows

    def held(self) -> list[Held]:
        """Every lock of the file, and every wait for one."""
        try:
            found = [row for row in self._rows() if row[-3] == self._name]
        except OSError:
            return []
        return [Held(int(row[-4]), int(row[-2]), "WRITE" in row, "->" in row) for row in found if row[-2].isdigit()]

    def _rows(self) -> Iterator[list[str]]:
        # "1: POSIX  ADVISORY  WRITE 3802 fe:00:1474578 0 0"; one who waits for it: "1: -> POSIX ..."
        for line in self._table.read_text().splitlines():
            row = line.split()
            if "POSIX" in row and len(row) >= 8:
                yield row


def waiting(held: list[Held], pids: set[int]) -> bool:
    """Whether one of `pids` waits for somebody else."""
    return any(one.waits for one in held if one.pid in pids)


def keeping(held: list[Held], pids: set[int]) -> bool:
    """Whether these processes keep the GPU, the head of the queue or the making of contexts from everybody else and
    wait for nobody."""
    return not waiting(held, pids) and any(one.alone or one.byte == MAKING for one in held if one.pid in pids)


def sharing(held: list[Held], pids: set[int]) -> bool:
    """Whether one of `pids` holds any of it."""
    return any(one.pid in pids and not one.waits and (one.alone or one.byte in (GPU, MAKING)) for one in held)
