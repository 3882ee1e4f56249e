"""Landlock: the child may read the toolchain and write its private folder, nothing else. Standard library only."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable

from judge.bench.sandboxing.calls import checked

LIBC = ctypes.CDLL(None, use_errno=True)
CREATE, ADD_RULE, RESTRICT = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
FIRST_RIGHTS, REFER, TRUNCATE, IOCTL_DEV = (1 << 13) - 1, 1 << 13, 1 << 14, 1 << 15
THREADS_SINCE, ALL_THREADS = 8, 1 << 3  # before that version a ruleset is for the calling thread alone
TCP, SCOPES = 3, 3  # binding and connecting; abstract Unix sockets and signals stay inside


def abi() -> int:
    """Version of the kernel's Landlock interface; 0 when there is none."""
    return max(0, int(LIBC.syscall(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def restrict(*, read: Iterable[str], write: Iterable[str], devices: Iterable[str] = ()) -> int:
    """Restrict this thread and what it starts for good; returns the interface version, 0 when unavailable.

    From version THREADS_SINCE on it is every thread of the process. The process must have no_new_privs. Raises OSError
    when a call fails, or when nothing is restricted after all.
    """
    version = abi()
    if version == 0:
        return 0
    handled = FIRST_RIGHTS
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        handled |= right if version >= since else 0
    fields = 1 if version < 4 else 2 if version < 6 else 3
    attributes = struct.pack(f"{fields}Q", *(handled, TCP, SCOPES)[:fields])
    ruleset = checked(
        LIBC.syscall(CREATE, ctypes.c_char_p(attributes), ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    )
    on_file = EXECUTE | WRITE_FILE | READ_FILE | (handled & (TRUNCATE | IOCTL_DEV))
    try:
        for paths, access in ((read, EXECUTE | READ_FILE | READ_DIR), (write, handled), (devices, on_file)):
            for path in paths:
                _allow(ruleset, path, access, on_file)
        checked(LIBC.syscall(RESTRICT, ruleset, ctypes.c_uint32(ALL_THREADS if version >= THREADS_SINCE else 0)))
    finally:
        os.close(ruleset)
    _prove()
    return version


def _prove() -> None:
    """Raises OSError where the root folder can be listed: no rule grants that."""
    try:
        handle = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        return
    os.close(handle)
    raise OSError(errno.ENOTSUP, "the kernel took the rules and does not apply them")


def _allow(ruleset: int, path: str, access: int, on_file: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not on this machine, or already out of reach
    try:
        granted = access if os.path.isdir(path) else access & on_file  # noqa: PTH112
        rule = struct.pack("=Qi", granted, handle)
        checked(LIBC.syscall(ADD_RULE, ruleset, 1, ctypes.c_char_p(rule), ctypes.c_uint32(0)))
    finally:
        os.close(handle)
