"""A seccomp deny list for x86-64 Linux: classic BPF, built here, installed with prctl. Standard library only.

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
import platform
import struct

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
X86_64 = 0xC000003E
LOAD, JUMP_EQ, JUMP_GE, JUMP_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
REFUSED, DONE = 0x0005006F, 0x00050000  # ECONNREFUSED, as when nobody listens; success without an effect
NR, ARCH, ARG0, ARG1 = 0, 4, 16, 24  # offsets in struct seccomp_data; of an argument the low word

# fmt: off
DENIED = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "process_madvise": 440,
    "pidfd_open": 434, "pidfd_getfd": 438, "pidfd_send_signal": 424, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
    "bpf": 321, "userfaultfd": 323, "perf_event_open": 298, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "add_key": 248, "request_key": 249, "keyctl": 250, "syslog": 103,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "unshare": 272, "setns": 308,
    "init_module": 175, "delete_module": 176, "finit_module": 313, "kexec_load": 246, "kexec_file_load": 320,
    "reboot": 169, "swapon": 167, "swapoff": 168, "acct": 163, "quotactl": 179, "settimeofday": 164,
    "clock_settime": 227, "clock_adjtime": 305, "adjtimex": 159, "sethostname": 170, "setdomainname": 171,
    "iopl": 172, "ioperm": 173, "modify_ldt": 154, "vhangup": 153, "personality": 135,
    "setsid": 112, "setpgid": 109, "setuid": 105, "setgid": 106, "setreuid": 113, "setregid": 114,
    "setresuid": 117, "setresgid": 119, "setfsuid": 122, "setfsgid": 123, "setgroups": 116,
    "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199,
    "setxattrat": 463, "removexattrat": 466, "file_setattr": 469, "migrate_pages": 256,
}
PRETENDED = {
    "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452,
    "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260,
    "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280,
    "setpriority": 141, "ioprio_set": 251, "sched_setparam": 142, "sched_setscheduler": 144,
    "sched_setaffinity": 203, "sched_setattr": 314,
}
# fmt: on
FORK, VFORK, CLONE, CLONE3 = 57, 58, 56, 435
SOCKET, CONNECT, AF_UNIX = 41, 42, 1
PRLIMIT, ITSELF = 302, 0  # its first argument: a process id, 0 for the caller
SIGNALS = (62, 200, 234)  # kill, tkill, tgkill
# Naming another process as a descriptor's owner lets the kernel send it any signal, SIGKILL too, when data arrives.
OWNERS = {72: (8, 10, 15), 16: (0x8901, 0x8902)}  # fcntl: F_SETOWN, F_SETSIG, F_SETOWN_EX; ioctl: FIOSETOWN, SIOCSPGRP
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


def program(*, own_pid: int, allow_fork: bool, allow_socket: bool, allow_connect: bool) -> bytes:
    """The filter as bytes. Signals and limits reach only the child itself; sockets are Unix ones; no new namespaces."""
    ops = [
        _op(LOAD, 0, 0, ARCH),
        _op(JUMP_EQ, 1, 0, X86_64),
        _op(RETURN, 0, 0, KILL),
        _op(LOAD, 0, 0, NR),
        _op(JUMP_GE, 0, 1, 0x40000000),  # the x32 calling convention would dodge the numbers below
        _op(RETURN, 0, 0, KILL),
    ]
    for number in sorted(DENIED.values()):
        ops += _deny(number)
    for number in sorted(PRETENDED.values()):
        ops += _deny(number, DONE)
    ops += _deny(CLONE3, ENOSYS)  # its flags lie in memory, out of the filter's sight; libc falls back to clone
    if not allow_connect:
        ops += _deny(CONNECT, REFUSED)
    if not allow_socket:  # a datagram needs no connection to reach a socket in the file system
        ops += _deny(SOCKET)
    if not allow_fork:
        ops += _deny(FORK) + _deny(VFORK)
    wanted = [] if allow_fork else [_op(JUMP_SET, 1, 0, CLONE_THREAD), _op(RETURN, 0, 0, EPERM)]
    ops += [
        _op(JUMP_EQ, 0, 4 + len(wanted), CLONE),
        _op(LOAD, 0, 0, ARG0),
        _op(JUMP_SET, 0, 1, NEW_NAMESPACES),
        _op(RETURN, 0, 0, EPERM),
        *wanted,
        _op(RETURN, 0, 0, ALLOW),
    ]
    for number in SIGNALS:
        ops += _only(number, own_pid)
    for number, values in OWNERS.items():
        ops += _never(number, values)
    ops += _only(PRLIMIT, ITSELF)
    ops += _only(SOCKET, AF_UNIX)
    ops.append(_op(RETURN, 0, 0, ALLOW))
    return b"".join(ops)


def available() -> bool:
    """Whether `install` can work here: the kernel takes filters, and this one is written for the machine."""
    if platform.machine() != "x86_64":
        return False
    LIBC.prctl(PR_SET_SECCOMP, 2, None, 0, 0)  # a filter at address 0: only a kernel that takes filters looks there
    return ctypes.get_errno() == errno.EFAULT


def install(*, allow_fork: bool, allow_socket: bool, allow_connect: bool) -> bool:
    """Put the filter on this process and all it will fork. False when the machine or kernel has no such filter."""
    if platform.machine() != "x86_64":
        return False
    code = program(own_pid=os.getpid(), allow_fork=allow_fork, allow_socket=allow_socket, allow_connect=allow_connect)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.c_char_p(header), 0, 0) == 0)
