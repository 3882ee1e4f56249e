"""Keeps the data folder to this account: sessions, the signing key and passwords lie in it. Standard library only."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

UMASK = 0o077
OTHERS = 0o077  # what a mode may hold for accounts other than the owner
# What lies directly in the data folder. Deeper files (compiled kernels, say) are kept from others by the folder's mode.
FILES = ("db.sqlite3*", "secret_key*", "valkey_password*", "valkey.conf", "beat-schedule*", "address", "up.lock")
FOLDERS = ("logs", "device_keys")


def prepare(folder: Path) -> list[str]:
    """Set the umask of this process and make `folder` private. Returns a line for each thing that had to be changed.

    A folder that this account may not change, and a shared one such as /tmp, stay as they are: `faults` tells of them.
    Raises OSError when the folder cannot be created.
    """
    os.umask(UMASK)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if _shared(folder):
        return []
    before = stat.S_IMODE(folder.stat().st_mode)
    opened = _close(folder)  # first, so that nobody else can reach what is changed next
    changed = [path.relative_to(folder).as_posix() for path in _inside(folder) if _close(path)]
    said = []
    if opened:
        said.append(f"The data folder {folder} was open to other accounts (mode {before:o}): it now has mode 700.")
    if changed:
        said.append(f"Closed to other accounts in {folder}: {', '.join(sorted(changed))}.")
    if opened and changed:
        said.append(
            "Other accounts of this machine could read its sessions and keys until now. If you do not trust them, "
            "delete secret_key and valkey_password there and start again: all members must sign in again."
        )
    return said


def faults(folder: Path) -> list[tuple[str, str]]:
    """What keeps `folder` from being private, each with what to do about it; empty when it is."""
    try:
        found = folder.stat()
    except OSError as error:
        return [(f"The data folder {folder} cannot be examined: {error.strerror}.", "Set ADAEXPLORE_DATA.")]
    said = []
    if _shared(folder):
        hint = "Set ADAEXPLORE_DATA to a folder of its own, such as one below it."
        said.append((f"The data folder {folder} is shared by all accounts.", hint))
    elif found.st_mode & OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        what = f"The data folder {folder} is open to other accounts (mode {mode:o}), who can read sessions and keys."
        said.append((what, f"Run: chmod 700 {folder}"))
    if found.st_uid != os.geteuid():
        what = f"The data folder {folder} belongs to {_account(found.st_uid)}, not to {_account(os.geteuid())}."
        said.append((what, f"Run: chown -R {_account(os.geteuid())} {folder}, or start the dashboard as its owner."))
    return said


def _inside(folder: Path) -> Iterator[Path]:
    for pattern in FILES:
        yield from folder.glob(pattern)
    for name in FOLDERS:
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            yield folder / name
            yield from (folder / name).iterdir()


def _close(path: Path) -> bool:
    """Take the rights of others from a plain file or a folder; whether there were any. Never through a link."""
    try:
        mode = path.lstat().st_mode
        if not mode & OTHERS or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return False
        path.chmod(stat.S_IMODE(mode) & ~OTHERS)
    except OSError:
        return False  # another account's, or gone by now
    return True


def _shared(folder: Path) -> bool:
    """Whether it is a folder such as /tmp, which other programs need open."""
    return bool(folder.stat().st_mode & stat.S_ISVTX)


def _account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
