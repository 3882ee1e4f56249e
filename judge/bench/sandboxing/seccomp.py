"""A seccomp deny list for Linux on x86-64 and aarch64: classic BPF, built here, put on every thread of the process.

Standard library only: docs/adr/0047 says why libseccomp is not used.

Denied calls fail with EPERM. `setsid` and `setpgid` are among them on purpose: every descendant then stays in the
child's process group, where one signal reaches them all at once and no fork can slip away.

Some calls reach past the other layers and are only pretended: they answer 0 and do nothing. Landlock does not guard
modes, owners and times of files, and any process may slow down, move or starve another one of the same user (the
baseline of its own speedup, or the server). Compilers and copying make such calls on their own files and would stop at
an error.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from judge.bench.sandboxing import calls, threads
from judge.bench.sandboxing.calls import DENIED, MEMFD, PRETENDED, Architecture, checked

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_SECCOMP, FILTER = 22, 2
SET_FILTER, ALL_THREADS = 1, 1  # operation and flag of seccomp(2)
LOAD, JUMP_EQ, JUMP_GE, JUMP_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
REFUSED, DONE = 0x0005006F, 0x00050000  # ECONNREFUSED, as when nobody listens; success without an effect
NR, ARCH, ARG0, ARG1 = 0, 4, 16, 24  # offsets in struct seccomp_data; of an argument the low word

X32 = 0x40000000  # from here on x86-64 numbers calls of its x32 convention, which would avoid the numbers below
AF_UNIX = 1
ITSELF = 0  # first argument of prlimit64: a process id, 0 for the caller
SIGNALS = ("kill", "tkill", "tgkill")
# Naming another process as a descriptor's owner lets the kernel send it any signal, SIGKILL too, when data arrives:
# F_SETOWN, F_SETSIG, F_SETOWN_EX; FIOSETOWN, SIOCSPGRP. And the kernel's table of locks names nobody for F_OFD_SETLK
# and F_OFD_SETLKW, so that whoever kept the GPU by one would not be found.
NEVER = {"fcntl": (8, 10, 15, 37, 38), "ioctl": (0x8901, 0x8902)}
CLONE_THREAD, NEW_NAMESPACES = 0x00010000, 0x7E020000


def _op(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _deny(number: int, answer: int = EPERM) -> list[bytes]:
    return [_op(JUMP_EQ, 0, 1, number), _op(RETURN, 0, 0, answer)]


def _only(number: int, value: int) -> list[bytes]:
    """Allow call `number` only when its first argument is `value`. Ends the program for that call."""
    return [
        _op(JUMP_EQ, 0, 4, number),
        _op(LOAD, 0, 0, ARG0),
        _op(JUMP_EQ, 1, 0, value),
        _op(RETURN, 0, 0, EPERM),
        _op(RETURN, 0, 0, ALLOW),
    ]


def _never(number: int, values: tuple[int, ...]) -> list[bytes]:
    """Refuse call `number` when its second argument is one of `values`. Ends the program for that call."""
    tests = [_op(JUMP_EQ, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [
        _op(JUMP_EQ, 0, 3 + len(tests), number),
        _op(LOAD, 0, 0, ARG1),
        *tests,
        _op(RETURN, 0, 0, ALLOW),
        _op(RETURN, 0, 0, EPERM),
    ]


def program(
    architecture: Architecture,
    *,
    own_pid: int,
    allow_fork: bool,
    allow_socket: bool,
    allow_connect: bool,
    allow_memfd: bool,
) -> bytes:
    """The filter as bytes. Signals and limits reach only the child itself; sockets are Unix ones; no new namespaces.

    A call of another architecture, and one of x32, kills the process.
    """
    number = architecture.number
    ops = [
        _op(LOAD, 0, 0, ARCH),
        _op(JUMP_EQ, 1, 0, architecture.audit),
        _op(RETURN, 0, 0, KILL),
        _op(LOAD, 0, 0, NR),
        _op(JUMP_GE, 0, 1, X32),
        _op(RETURN, 0, 0, KILL),
    ]
    for denied in architecture.numbers(DENIED if allow_memfd else DENIED | MEMFD):
        ops += _deny(denied)
    for pretended in architecture.numbers(PRETENDED):
        ops += _deny(pretended, DONE)
    ops += _deny(number("clone3"), ENOSYS)  # its flags lie in memory that the filter cannot see; libc then uses clone
    if not allow_connect:
        ops += _deny(number("connect"), REFUSED)
    if not allow_socket:  # a datagram needs no connection to reach a socket in the file system
        ops += _deny(number("socket"))
    if not allow_fork:
        for forking in architecture.numbers(calls.FORKING):
            ops += _deny(forking)
    wanted = [] if allow_fork else [_op(JUMP_SET, 1, 0, CLONE_THREAD), _op(RETURN, 0, 0, EPERM)]
    ops += [
        _op(JUMP_EQ, 0, 4 + len(wanted), number("clone")),
        _op(LOAD, 0, 0, ARG0),
        _op(JUMP_SET, 0, 1, NEW_NAMESPACES),
        _op(RETURN, 0, 0, EPERM),
        *wanted,
        _op(RETURN, 0, 0, ALLOW),
    ]
    for name in SIGNALS:
        ops += _only(number(name), own_pid)
    for name, values in NEVER.items():
        ops += _never(number(name), values)
    ops += _only(number("prlimit64"), ITSELF)
    ops += _only(number("socket"), AF_UNIX)
    ops.append(_op(RETURN, 0, 0, ALLOW))
    return b"".join(ops)


def available() -> bool:
    """Whether `install` can work here: the kernel takes filters, and this one is written for the machine."""
    if calls.here() is None:
        return False
    ctypes.set_errno(0)
    LIBC.prctl(PR_SET_SECCOMP, FILTER, None, 0, 0)  # at address 0: only a kernel that takes filters looks there
    return ctypes.get_errno() == errno.EFAULT


def install(*, allow_fork: bool, allow_socket: bool, allow_connect: bool, allow_memfd: bool) -> bool:
    """Put the filter on every thread of this process and all it will fork. This thread must have no_new_privs; the
    others get it as well.

    False when there is no filter for this machine or its kernel takes none. Raises OSError when the kernel refuses
    the filter, or accepts it and does not apply it to every thread.
    """
    architecture = calls.here()
    if architecture is None or not available():
        return False
    code = program(
        architecture,
        own_pid=os.getpid(),
        allow_fork=allow_fork,
        allow_socket=allow_socket,
        allow_connect=allow_connect,
        allow_memfd=allow_memfd,
    )
    _put(code, architecture)
    if LIBC.fchmod(-1, 0) != 0:  # fails for the descriptor unless our filter pretends that it worked
        raise OSError(errno.ENOTSUP, "the kernel took the filter and does not apply it")
    if threads.without_filter() or threads.without_no_new_privs():
        raise OSError(errno.ENOTSUP, "the kernel took the filter and does not apply it to every thread")
    return True


def _put(code: bytes, architecture: Architecture) -> None:
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    number = ctypes.c_long(architecture.number("seccomp"))
    thread = checked(
        LIBC.syscall(number, ctypes.c_uint(SET_FILTER), ctypes.c_uint(ALL_THREADS), ctypes.c_char_p(header))
    )
    if thread:
        raise OSError(errno.EBUSY, f"thread {thread} does not take the filter")
