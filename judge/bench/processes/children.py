"""One forked child as the runner sees it, and its private folder with its removal. Standard library only."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from judge.bench.exchange.fields import BadClaim
from judge.bench.exchange.reports import Report, heard
from judge.bench.exchange.wire import Channel, WireClosed, WireGarbage
from judge.bench.processes.killed import Cause

OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def wipe(folder: Path) -> bool:
    """Remove `folder` with all that is in it; True when it is gone. Nobody may be writing to it any more.

    It goes down and up again with one descriptor, the way back being "..": neither depth nor the length of a path ends
    it.
    """
    try:
        here = _opened(str(folder), None)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    way: list[str] = []  # names of the folders from the top to here
    left = [_emptied(here)]  # folders still to visit, for each of them and for the top
    try:
        while left[-1] or way:
            if not left[-1]:
                here = _swapped(here, os.open("..", OPEN, dir_fd=here))
                left.pop()
                _quietly(os.rmdir, way.pop(), dir_fd=here)
                continue
            name = left[-1].pop()
            try:
                here = _swapped(here, _opened(name, here))
            except OSError:
                continue
            way.append(name)
            left.append(_emptied(here))
    finally:
        os.close(here)
    _quietly(os.rmdir, folder)
    return not folder.exists()


def _swapped(old: int, new: int) -> int:
    os.close(old)
    return new


def _opened(name: str, parent: int | None) -> int:
    """A descriptor of a folder that we may change. Raises OSError, also for a link."""
    try:
        fd = os.open(name, OPEN, dir_fd=parent)
    except PermissionError:
        _reopened(name, parent)
        return os.open(name, OPEN, dir_fd=parent)
    _quietly(os.fchmod, fd, 0o700)
    return fd


def _reopened(name: str, parent: int | None) -> None:
    """Give a folder its modes back without following a link."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{handle}").chmod(0o700)
    finally:
        os.close(handle)


def _emptied(fd: int) -> list[str]:
    """Remove everything but folders; their names are returned."""
    with os.scandir(fd) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            _quietly(os.unlink, name, dir_fd=fd)
    return [name for name, is_folder in found if is_folder]


def _quietly(call: Callable[..., object], *arguments: object, **named: object) -> None:
    try:
        call(*arguments, **named)
    except OSError:
        pass  # what stays is seen at the end


PREFIX = "adaexplore-bench-"
SYSTEM_PLACES = (Path("/tmp"), Path("/var/tmp"))
END_S = 10.0  # that killed children may take to be gone
FIRST_WORDS = 2


class Server(Protocol):
    """What a child's watcher asks of the zygote's runner side."""

    channel: Channel
    gone: bool

    def pump(self) -> None:
        """Note what the zygote reported."""

    def kill(self, child: Child) -> None:
        """Ask for the child's end."""

    def freeze(self, child: Child, *, after_s: float) -> None:
        """Stop the child's processes a moment from now, once they hold nothing of the GPU's lock."""

    def thaw(self, child: Child) -> None:
        """Let them go on."""

    def place(self, child: Child, cores: Iterable[int] = (), *, nice: int = 0) -> str:
        """Move the child's processes to these processors. Returns why that failed."""


@dataclass
class Child:
    """One forked child as the runner sees it."""

    number: int
    server: Server
    folder: Path
    boss: Channel
    log_fd: int
    pid: int = 0
    status: int | None = None  # wait status once it ended
    killed: bool = False  # by us, because the runner asked for it
    cause: Cause = Cause.NONE  # why it was killed, known once it has ended
    peak_kb: int = 0
    log: bytearray = field(default_factory=bytearray)
    log_dropped: int = 0
    log_open: bool = True
    layers: dict[str, str] | None = None
    first_words: list[Report] = field(default_factory=list)  # at most FIRST_WORDS, see `hear`

    def hear(self) -> list[Report]:
        """What it said before it had seen any foreign code: its sandbox layers, and a subject its threads. Whatever may
        come afterwards is dropped."""
        if len(self.first_words) < FIRST_WORDS:
            try:
                self.first_words += [heard(message, "") for message in self.boss.pump()]
            except (WireClosed, WireGarbage, BadClaim):
                pass  # it has nothing more to say
            del self.first_words[FIRST_WORDS:]
        return self.first_words

    @property
    def starts(self) -> bool:
        """Whether it lives and has not said yet that its sandbox is there, which comes after its CUDA context."""
        return self.status is None and not self.layers and not self.hear()

    def drain(self, limit: int) -> None:
        """Take what the child printed; keep `limit` bytes of it, count the rest."""
        while True:
            try:
                part = os.read(self.log_fd, 1 << 16)
            except BlockingIOError:
                return
            if not part:
                self.log_open = False
                return
            kept = part[: max(0, limit - len(self.log))]
            self.log += kept
            self.log_dropped += len(part) - len(kept)

    def release(self) -> None:
        """Close our ends of its channels. Idempotent."""
        self.boss.close()
        if self.log_fd >= 0:
            os.close(self.log_fd)
            self.log_fd = -1

    def ending(self) -> str:
        """How it ended, in words."""
        if self.status is None:
            return "still running"
        if os.WIFSIGNALED(self.status):
            return f"killed by {signal_name(os.WTERMSIG(self.status))}"
        return f"exited with status {os.WEXITSTATUS(self.status)}"

    def tail(self) -> str:
        """The end of what it printed."""
        return bytes(self.log[-1500:]).decode("utf-8", "replace").strip()

    @property
    def killed_for_memory(self) -> bool:
        """By the kernel, and not by us."""
        return self.cause is Cause.MEMORY and not self.killed

    @property
    def out_of_time(self) -> bool:
        """Whether it used up its processor time; the signal depends on how the limit was set."""
        by_signal = self.status is not None and os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status)
        return self.cause is Cause.TIME or by_signal == signal.SIGXCPU


def signal_name(number: int) -> str:
    """Its name, or its number: a process may end itself by a real-time signal, and most of those have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def folder_mode() -> int:
    """Mode of private folders. As root, children keep only the effective id; access(2), which compilers ask about
    their temporary folder, goes by the real one, so the (root) group must do."""
    return 0o770 if os.geteuid() == 0 else 0o700


def retire(child: Child) -> None:
    """Close our ends of a child that is ending, and remove its folder."""
    child.release()
    wipe(child.folder)


def private_folder() -> Path:
    """A new folder of a bench, for what its children need; those of dead benches are removed."""
    place = temporary_place()
    _sweep(place)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=place))
    folder.chmod(folder_mode())
    return folder


def temporary_place() -> Path:
    """Python's temporary folder, or the system's where children could not use that one: below a folder of mode 700,
    such as the data folder, a root's child finds no temporary folder for its compiler (see `folder_mode`)."""
    first = Path(tempfile.gettempdir())
    return next((place for place in (first, *SYSTEM_PLACES) if reachable(place)), first)


def reachable(place: Path) -> bool:
    """Whether access(2) lets a child through: as root it asks for user nobody and the group root."""
    if os.geteuid() != 0:
        return True
    try:
        found = [folder.stat() for folder in (place.resolve(), *place.resolve().parents)]
    except OSError:
        return False
    return all(each.st_mode & (stat.S_IXGRP if each.st_gid == 0 else stat.S_IXOTH) for each in found)


def _sweep(folder: Path) -> None:
    """Remove the folders of benches whose process was killed before it could."""
    for path in folder.glob(f"{PREFIX}*-*"):
        pid = path.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            wipe(path)
