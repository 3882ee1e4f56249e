"""Removes a folder that foreign code has written to: any depth, any modes, links removed and never followed.

Standard library only. `shutil.rmtree` goes down by recursion, and a thousand folders in one another end it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

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
