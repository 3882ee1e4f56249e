"""A folder that carries jobs and outcomes: a shared disk, or one that rsync or a person copies. No Django.

`jobs/` holds one signed job a file, `claims/` says who judges it, `outcomes/` holds one signed outcome a file, `done/`
remembers what was answered, so that a job that is copied once more is not judged once more. Every file appears whole or
is passed over: what rsync or a slow disk has written in part does not end with a line end.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from judge.batch.lines import MAX_LINE
from judge.values.owners import owner_lives, owner_name

LEASE_S = 60.0  # a claim that nobody has renewed for so long is free again
JOBS, CLAIMS, OUTCOMES, DONE, REFUSED = PARTS = ("jobs", "claims", "outcomes", "done", "refused")
_NAME = re.compile(r"(?P<priority>\d{2})-(?P<place>\d{9})-(?P<token>[A-Za-z0-9._-]{1,80})\.job")


@dataclass(frozen=True)
class Waiting:
    """A job as it lies there. Lower priorities come first, then lower places. The token names one export of one job."""

    priority: int
    place: int
    token: str

    @property
    def name(self) -> str:
        return f"{self.priority:02d}-{self.place:09d}-{self.token}.job"


def token_of(uid: str, nonce: str) -> str:
    """A job that left anew under another nonce is another one."""
    return f"{uid}.{nonce[:8]}"


class Folder:
    """One process's view of the folder. Raises OSError where the folder cannot be read or written.

    A claim is held as long as its content changes: its age is counted by the clock of whoever looks at it, so clocks of
    hosts need not agree. Of two that judge one job all the same, as on copies of a folder, the first outcome counts.
    """

    def __init__(self, root: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.root, self._clock = root, clock
        self.owner = owner_name()
        self._seen: dict[str, tuple[bytes, float]] = {}  # token -> content of its claim, and since when it is the same
        self._beats = 0
        root.mkdir(exist_ok=True, parents=True)
        shared = bool(root.stat().st_mode & 0o020)  # its group works together
        self._mode = 0o660 if shared else 0o600
        for part in PARTS:
            if not (root / part).is_dir():
                (root / part).mkdir(exist_ok=True)
                (root / part).chmod(0o2770 if shared else 0o700)

    # Jobs

    def waiting(self) -> list[Waiting]:
        """The jobs that lie there, the most urgent first. Names that are not of a job are passed over."""
        found = (_NAME.fullmatch(path.name) for path in (self.root / JOBS).iterdir())
        rows = [Waiting(int(one["priority"]), int(one["place"]), one["token"]) for one in found if one]
        return sorted(rows, key=lambda one: (one.priority, one.place, one.token))

    def read(self, job: Waiting) -> bytes | None:
        """The job's line; None while it is not there whole."""
        return _whole(self.root / JOBS / job.name)

    def holds(self, job: Waiting) -> bool:
        """Whether the job lies there."""
        return (self.root / JOBS / job.name).exists()

    def put_job(self, job: Waiting, line: bytes) -> None:
        """Write a job, unless it lies there."""
        if not self.holds(job):
            self._write(self.root / JOBS / job.name, line)

    def withdraw(self, job: Waiting) -> None:
        """Take a job away, with what says that it was done."""
        (self.root / JOBS / job.name).unlink(missing_ok=True)
        self._claim(job.token).unlink(missing_ok=True)
        (self.root / DONE / job.token).unlink(missing_ok=True)

    def answered(self, token: str) -> bool:
        """Whether its outcome was written, be it that it has left since."""
        return (self.root / DONE / token).exists() or (self.root / OUTCOMES / f"{token}.json").exists()

    # Claims

    def claim(self, token: str) -> bool:
        """Take a job, also from one whose process is gone or has not renewed its claim. False when it is held."""
        path = self._claim(token)
        held = _read(path)
        if held is not None:
            return self._stale(token, held) and self._take_over(path, held)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, self._mode)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "wb") as file:
            file.write(self._content())
        return True

    def renew(self, token: str) -> bool:
        """Say that it is still worked on. False when another one has it now."""
        path = self._claim(token)
        if _owner(_read(path) or b"") != self.owner:
            return False
        self._write(path, self._content())
        return True

    def release(self, token: str) -> None:
        """Let the next one take it at once."""
        path = self._claim(token)
        if _owner(_read(path) or b"") == self.owner:
            path.unlink(missing_ok=True)

    def _claim(self, token: str) -> Path:
        return self.root / CLAIMS / token

    def _content(self) -> bytes:
        self._beats += 1
        return json.dumps({"owner": self.owner, "beats": self._beats}).encode() + b"\n"

    def _stale(self, token: str, held: bytes) -> bool:
        now = self._clock()
        content, since = self._seen.get(token, (b"", now))
        if content != held or token not in self._seen:
            self._seen[token] = held, now
            since = now
        owner = _owner(held)
        return now - since >= LEASE_S or (bool(owner) and not owner_lives(owner))

    def _take_over(self, path: Path, held: bytes) -> bool:
        """Put our claim in the place of a stale one, without a moment when there is none. Of several that try only one
        may: the marker stands for this very content."""
        marker = path.with_name(f".{path.name}.{hashlib.sha256(held).hexdigest()[:12]}")
        if self._clock() - self._seen[path.name][1] >= 3 * LEASE_S:
            marker.unlink(missing_ok=True)  # whoever made it is gone
        try:
            os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, self._mode))
        except FileExistsError:
            return False
        try:
            if _read(path) != held:
                return False
            self._write(path, self._content())
            return True
        finally:
            marker.unlink(missing_ok=True)

    # Outcomes

    def put(self, token: str, line: bytes) -> bool:
        """Write an outcome, and remember that the job is done. False when another one was first."""
        path = self.root / OUTCOMES / f"{token}.json"
        first = not self.answered(token)
        if first:
            self._write(path, line)
            self._write(self.root / DONE / token, b"")
        self.release(token)
        return first

    def outcomes(self) -> Iterator[tuple[Path, bytes]]:
        """(file, line with its end) of each outcome that lies there whole, the oldest first."""
        for path in sorted(_listed(self.root / OUTCOMES, ".json"), key=lambda one: (_mtime(one), one.name)):
            line = _whole(path)
            if line is not None:
                yield path, line + b"\n"

    def imported(self, path: Path) -> None:
        """The outcome is stored: nothing of its job is needed any more."""
        for job in self.waiting():
            if job.token == path.stem:
                self.withdraw(job)
        path.unlink(missing_ok=True)

    def put_aside(self, path: Path) -> None:
        """Take an outcome away that cannot be imported."""
        path.replace(self.root / REFUSED / path.name)

    def refuse(self, token: str, why: str) -> None:
        """Say why a job cannot be judged."""
        self._write(self.root / REFUSED / f"{token}.txt", why.encode())

    def refusals(self) -> dict[str, str]:
        """By token why a job could not be judged."""
        paths = _listed(self.root / REFUSED, ".txt")
        return {path.stem: (_whole(path) or b"").decode(errors="replace") for path in paths}

    def _write(self, path: Path, content: bytes) -> None:
        end = b"" if not content or content.endswith(b"\n") else b"\n"
        write_whole(path, content + end, mode=self._mode, mark=self.owner.rpartition(":")[2])


def write_whole(path: Path, content: bytes, *, mode: int, mark: str) -> None:
    """Whole or not at all, on the disk when this returns, and with `mode` from its first byte.

    `mark` tells this writer's unfinished file from those of others. Raises OSError.
    """
    mine = path.with_name(f".{path.name}.{mark}")
    try:
        descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mine.replace(path)
    except BaseException:
        mine.unlink(missing_ok=True)
        raise


def _listed(folder: Path, end: str) -> list[Path]:
    """Files with this end, without those that are still written."""
    return [path for path in folder.iterdir() if path.suffix == end and not path.name.startswith(".")]


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _whole(path: Path) -> bytes | None:
    """The one line of a file without its end; None where it is missing, still written, or larger than any line is."""
    content = _read(path) if _size(path) <= MAX_LINE else None
    return content[:-1] if content and content.endswith(b"\n") else None


def _owner(content: bytes) -> str:
    try:
        return str(json.loads(content)["owner"])
    except (ValueError, KeyError, TypeError):
        return ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
