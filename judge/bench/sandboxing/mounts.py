"""A file system of the child's own that holds what it may reach and nothing else, read-only but for its folder.

Landlock is for the thread that asks for it; the root folder is for the whole process, so this layer also holds on
threads that a driver started before. It needs a mount namespace made while the process had one thread, and
capabilities in its user namespace. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

from judge.bench.sandboxing import calls, threads
from judge.bench.sandboxing.calls import checked

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS = 0x00020000
NO_SUID, NO_DEVICES, BIND, RECURSIVE, PRIVATE = 2, 4, 4096, 16384, 1 << 18
DETACH = 2
READ_ONLY, NO_PRIVILEGES = 1, 2  # attributes of mount_setattr
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
OPTIONS = "size=1m,nr_inodes=4k,mode=755"  # of the root folder, which holds folders and links alone
MOST_LINKS = 40
POINT = ".root"  # in the child's folder, until it is the root folder


def enter(*, read: Iterable[str], write: str, devices: Iterable[str]) -> None:
    """Leave the machine's file system for one with these paths at the same places, without those that do not exist.

    `write` is a folder, and becomes the current one. Raises OSError; whoever asks must then take nothing for granted.
    """
    links: dict[str, str] = {}
    places = dict.fromkeys(_places(read, links), READ_ONLY | NO_PRIVILEGES)
    places |= dict.fromkeys(_places(devices, links), NO_PRIVILEGES)
    (folder,) = _places([write], links)
    places[folder] = NO_PRIVILEGES
    if "/" in places:
        raise OSError(errno.EINVAL, "the whole file system is to be reached")
    root = Path(folder) / POINT
    root.mkdir(exist_ok=True)
    _mount(None, "/", None, RECURSIVE | PRIVATE)
    _mount("none", str(root), "tmpfs", NO_SUID | NO_DEVICES, OPTIONS)
    if not root.is_mount():
        raise OSError(errno.ENOTSUP, "the kernel took a mount and does not apply it")
    try:
        for place in sorted(places):  # a folder comes before what is in it
            _bind(place, root, places, recursive=place != folder)
        for link, target in links.items():
            if not _covered(link, places):
                _below(root, link).parent.mkdir(parents=True, exist_ok=True)
                _below(root, link).symlink_to(target)
        os.chdir(root)
        _become_root()
    finally:
        os.chdir(folder)
        LIBC.umount2(ctypes.c_char_p(os.fsencode(POINT)), DETACH)  # nothing is there any more unless a call failed
        _quietly_remove(Path(POINT))
    _prove({place.split("/")[1] for place in (*places, *links)})


def _places(paths: Iterable[str], links: dict[str, str]) -> list[str]:
    return [place for path in paths if (place := _resolved(path, links)) is not None]


def _resolved(path: str, links: dict[str, str]) -> str | None:
    """Where `path` lies, None where nothing is. Links on the way are noted with their targets."""
    done, left, hops = "/", path.split("/")[::-1], 0
    while left:
        part = left.pop()
        if part in ("", "."):
            continue
        here = os.path.dirname(done) if part == ".." else os.path.join(done, part)  # noqa: PTH118, PTH120
        try:
            is_link = stat.S_ISLNK(os.lstat(here).st_mode)
        except OSError:
            return None
        if not is_link:
            done = here
            continue
        hops += 1
        if hops > MOST_LINKS:
            return None
        links[here] = str(Path(here).readlink())
        done = "/" if links[here].startswith("/") else done
        left += links[here].split("/")[::-1]
    return done


def _covered(place: str, places: dict[str, int]) -> bool:
    """Whether a folder above is among `places`, so that it comes with it."""
    return any(str(above) in places for above in Path(place).parents)


def _below(root: Path, place: str) -> Path:
    return root / place.lstrip("/")


def _bind(place: str, root: Path, places: dict[str, int], *, recursive: bool) -> None:
    point = _below(root, place)
    if not _covered(place, places):
        point.parent.mkdir(parents=True, exist_ok=True)
        point.mkdir() if os.path.isdir(place) else point.touch()  # noqa: PTH112
    _mount(place, str(point), None, BIND | (RECURSIVE if recursive else 0))
    _set_attributes(str(point), places[place], AT_RECURSIVE if recursive else 0)
    if places[place] & READ_ONLY and not os.statvfs(point).f_flag & os.ST_RDONLY:
        raise OSError(errno.ENOTSUP, "the kernel took a mount as read-only and does not apply it")


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [text if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    checked(LIBC.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]))


def _set_attributes(target: str, attributes: int, flags: int) -> None:
    wanted = struct.pack("4Q", attributes, 0, 0, 0)
    number = _architecture().number("mount_setattr")
    path = ctypes.c_char_p(os.fsencode(target))
    checked(LIBC.syscall(number, AT_FDCWD, path, ctypes.c_uint(flags), wanted, ctypes.c_size_t(len(wanted))))


def _architecture() -> calls.Architecture:
    found = calls.here()
    if found is None:
        raise OSError(errno.ENOSYS, "the numbers of its system calls are not known")
    return found


def _become_root() -> None:
    """The current folder in place of the root folder, then the old one away: no path leads back."""
    here = ctypes.c_char_p(b".")
    checked(LIBC.syscall(_architecture().number("pivot_root"), here, here))
    checked(LIBC.umount2(here, DETACH))
    os.chdir("/")
    _set_attributes("/", READ_ONLY | NO_PRIVILEGES, 0)


def _quietly_remove(point: Path) -> None:
    try:
        point.rmdir()
    except OSError:
        pass  # an empty folder; it goes with the child's


def _prove(names: set[str]) -> None:
    """Raises OSError where something else can be seen, is open as a folder, or is seen by another thread."""
    above, top = Path("/..").stat(), Path("/").stat()
    if set(os.listdir("/")) != names or (above.st_dev, above.st_ino) != (top.st_dev, top.st_ino):  # noqa: PTH208
        raise OSError(errno.ENOTSUP, "the kernel took the new root folder and does not apply it")
    for fd in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            is_folder = stat.S_ISDIR(os.fstat(int(fd)).st_mode)
        except OSError:
            continue  # the listing's own
        if is_folder:
            raise OSError(errno.ENOTSUP, "a folder of the old file system is open")
    if threads.with_another_root():
        raise OSError(errno.ENOTSUP, "a thread kept the old root folder")
