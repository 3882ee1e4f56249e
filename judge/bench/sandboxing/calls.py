"""System calls that the filter is about: their numbers on the two architectures it is written for.

Numbers are from the kernel's `arch/x86/entry/syscalls/syscall_64.tbl` and from `include/uapi/asm-generic/unistd.h`,
which aarch64 uses. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass

Table = Mapping[str, tuple[int, int | None]]

# fmt: off
# Name -> number on x86-64, on aarch64 (None: the call does not exist there).
DENIED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "process_madvise": (440, 440), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "bpf": (321, 280),
    "userfaultfd": (323, 282), "perf_event_open": (298, 241), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "syslog": (103, 116), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "unshare": (272, 97), "setns": (308, 268),
    "init_module": (175, 105), "delete_module": (176, 106), "finit_module": (313, 273), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "vhangup": (153, 58),
    "personality": (135, 92), "setsid": (112, 157), "setpgid": (109, 154), "setuid": (105, 146), "setgid": (106, 144),
    "setreuid": (113, 145), "setregid": (114, 143), "setresuid": (117, 147), "setresgid": (119, 149),
    "setfsuid": (122, 151), "setfsgid": (123, 152), "setgroups": (116, 159), "setxattr": (188, 5),
    "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466), "file_setattr": (469, 469),
    "migrate_pages": (256, 238),
    # Memory of the System V and POSIX kinds is counted for no process and outlives it.
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180), "memfd_secret": (447, 447),
}
PRETENDED = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}
FORKING = {"fork": (57, None), "vfork": (58, None)}
BOUNDED = {
    "clone": (56, 220), "clone3": (435, 435), "socket": (41, 198),
    "connect": (42, 203), "prlimit64": (302, 261), "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131),
    "fcntl": (72, 25), "ioctl": (16, 29),
}
MEMFD = {"memfd_create": (319, 279)}  # memory that no limit of a process counts
OURS = {"seccomp": (317, 277)}
# fmt: on


@dataclass(frozen=True)
class Architecture:
    """`audit`: what the kernel calls it in `struct seccomp_data`. `column`: its place in the tables above."""

    audit: int
    column: int

    def number(self, name: str) -> int:
        """Raises KeyError for a call that this architecture does not have, or that no table names."""
        number = (DENIED | PRETENDED | FORKING | BOUNDED | MEMFD | OURS)[name][self.column]
        if number is None:
            raise KeyError(name)
        return number

    def numbers(self, table: Table) -> list[int]:
        """Numbers of those calls of `table` that exist here, ascending."""
        return sorted(number for row in table.values() if (number := row[self.column]) is not None)


ARCHITECTURES = {"x86_64": Architecture(0xC000003E, 0), "aarch64": Architecture(0xC00000B7, 1)}


def here() -> Architecture | None:
    """The architecture of this process; None for another one, and for a 32-bit process on a 64-bit kernel."""
    return ARCHITECTURES.get(platform.machine()) if struct.calcsize("P") == 8 else None


def checked(result: int) -> int:
    """What a call of the C library returned. Raises OSError with its errno when that is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
