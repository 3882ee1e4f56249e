"""The system call filter of both architectures, run by an interpreter of classic BPF, and its numbers."""

from __future__ import annotations

import errno
import platform
import re
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from judge.bench.sandboxing import calls, seccomp
from judge.bench.sandboxing.calls import ARCHITECTURES, BOUNDED, DENIED, FORKING, MEMFD, OURS, PRETENDED

PID = 4321
ALLOWED, KILLED = "allowed", "killed"
CLONE_THREAD, CLONE_NEWUSER, SIGCHLD = 0x10000, 0x10000000, 17
OTHERS = {"i386": 0x40000003, "arm": 0x40000028, "riscv64": 0xC00000F3}
HEADERS = (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm-generic/unistd.h"))


def run(code: bytes, number: int, audit: int, *arguments: int) -> str | int:
    """What the kernel would do: allowed, killed, or the error number of the answer (0: pretended)."""
    data = struct.pack("IIQ6Q", number & 0xFFFFFFFF, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    accumulator, at = 0, 0
    for _ in range(len(code) // 8):  # a filter only jumps forward
        operation, if_true, if_false, value = struct.unpack_from("HBBI", code, 8 * at)
        at += 1
        assert operation in (0x15, 0x35, 0x45) or if_true == if_false == 0, "only a jump says how far"
        if operation == 0x20:  # BPF_LD | BPF_W | BPF_ABS
            (accumulator,) = struct.unpack_from("I", data, value)
        elif operation == 0x06:  # BPF_RET | BPF_K
            return {0x7FFF0000: ALLOWED, 0x80000000: KILLED}.get(value) or _errno(value)
        else:  # BPF_JMP | BPF_K with JEQ, JGE, JSET
            tests = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: accumulator & value != 0}
            at += if_true if tests[operation] else if_false
    raise AssertionError("the program has no end")


def _errno(value: int) -> int:
    assert value >> 16 == 5, f"{value:#x} is no SECCOMP_RET_ERRNO"
    return value & 0xFFFF


class Filter:
    def __init__(self, name: str, **allowed: bool) -> None:
        self.architecture = ARCHITECTURES[name]
        defaults = {"allow_fork": False, "allow_socket": False, "allow_connect": False, "allow_memfd": False}
        allowed = {**defaults, **allowed}
        self.code = seccomp.program(self.architecture, own_pid=PID, **allowed)

    def __call__(self, call: str | int, *arguments: int, audit: int | None = None) -> str | int:
        number = call if isinstance(call, int) else self.architecture.number(call)
        return run(self.code, number, self.architecture.audit if audit is None else audit, *arguments)

    def has(self, name: str) -> bool:
        return {**DENIED, **PRETENDED, **FORKING, **BOUNDED, **MEMFD}[name][self.architecture.column] is not None


@pytest.fixture(params=ARCHITECTURES)
def name(request) -> str:
    return request.param


def test_every_denied_call_is_refused_and_every_pretended_one_answers_zero(name) -> None:
    ask = Filter(name)
    assert {call: ask(call) for call in DENIED if ask.has(call)} == {
        call: errno.EPERM for call in DENIED if ask.has(call)
    }
    assert {call: ask(call) for call in PRETENDED if ask.has(call)} == {call: 0 for call in PRETENDED if ask.has(call)}
    assert sum(map(ask.has, DENIED)) > 60 and sum(map(ask.has, PRETENDED)) >= 11
    assert ask.code[-8:] == struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)


NAMES = {
    "DENIED": """
    ptrace process_vm_readv process_vm_writev kcmp process_madvise pidfd_open pidfd_getfd pidfd_send_signal
    rt_sigqueueinfo rt_tgsigqueueinfo bpf userfaultfd perf_event_open io_uring_setup io_uring_enter
    io_uring_register add_key request_key keyctl syslog mount umount2 pivot_root chroot open_tree move_mount
    fsopen fsconfig fsmount fspick mount_setattr name_to_handle_at open_by_handle_at unshare setns init_module
    delete_module finit_module kexec_load kexec_file_load reboot swapon swapoff acct quotactl settimeofday
    clock_settime clock_adjtime adjtimex sethostname setdomainname iopl ioperm modify_ldt vhangup personality
    setsid setpgid setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups setxattr
    lsetxattr fsetxattr removexattr lremovexattr fremovexattr setxattrat removexattrat file_setattr
    migrate_pages shmget semget msgget mq_open memfd_secret
    """,
    "PRETENDED": """
    chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat setpriority
    ioprio_set sched_setparam sched_setscheduler sched_setaffinity sched_setattr
    """,
    "FORKING": "fork vfork",
    "BOUNDED": "clone clone3 socket connect prlimit64 kill tkill tgkill fcntl ioctl",
}


@pytest.mark.parametrize("table", NAMES)
def test_a_call_less_in_a_table_is_a_decision(table) -> None:
    assert sorted(getattr(calls, table)) == sorted(NAMES[table].split())
    assert len(NAMES[table].split()) == len(set(NAMES[table].split()))


def test_calls_that_no_table_names_are_allowed(name) -> None:
    ask = Filter(name)
    tables = (DENIED, PRETENDED, FORKING, BOUNDED, MEMFD)
    named = {row[ask.architecture.column] for table in tables for row in table.values()}
    assert {ask(number, 1, 1) for number in range(480) if number not in named} == {ALLOWED}


@pytest.mark.parametrize("other", [*OTHERS, "native of the other machine", "nothing"])
def test_a_call_of_another_architecture_kills(name, other) -> None:
    native = next(one.audit for known, one in ARCHITECTURES.items() if known != name)
    audit = {**OTHERS, "native of the other machine": native, "nothing": 0}[other]
    assert {Filter(name)(number, audit=audit) for number in range(480)} == {KILLED}


def test_a_call_of_x32_kills(name) -> None:
    ask = Filter(name, allow_fork=True, allow_socket=True, allow_connect=True)
    assert {ask(number | 0x40000000) for number in range(600)} == {KILLED}
    assert ask(-1) == KILLED and ask(0x3FFFFFFF) == ALLOWED


def test_signals_and_limits_reach_only_the_child_itself(name) -> None:
    ask = Filter(name, allow_fork=True, allow_socket=True, allow_connect=True)
    for call in ("kill", "tkill", "tgkill"):
        assert ask(call, PID, 9) == ALLOWED
        assert {ask(call, pid, 9) for pid in (0, 1, PID + 1, 0xFFFFFFFF, 2**32 - PID)} == {errno.EPERM}
    assert ask("prlimit64", 0) == ALLOWED and ask("prlimit64", PID) == ask("prlimit64", 1) == errno.EPERM


def test_no_other_process_becomes_the_owner_of_a_descriptor_and_no_lock_is_without_one(name) -> None:
    ask = Filter(name)
    for call, refused, fine in (
        ("fcntl", (8, 10, 15, 37, 38), (1, 2, 6, 7, 9, 11)),
        ("ioctl", (0x8901, 0x8902), (0x5401, 0x8903)),
    ):
        assert {ask(call, 3, value) for value in refused} == {errno.EPERM}
        assert {ask(call, value, other) for other in fine for value in refused} == {ALLOWED}


def test_sockets_are_unix_ones_and_only_where_they_are_allowed(name) -> None:
    closed, half, opened = Filter(name), Filter(name, allow_socket=True), Filter(name, allow_connect=True)
    assert closed("socket", 1) == opened("socket", 1) == errno.EPERM and half("socket", 1) == ALLOWED
    assert {half("socket", family) for family in (0, 2, 10, 16)} == {errno.EPERM}
    assert closed("connect") == half("connect") == errno.ECONNREFUSED and opened("connect") == ALLOWED


def test_a_file_in_memory_is_for_children_that_share_their_tensors_alone(name) -> None:
    assert Filter(name)("memfd_create") == errno.EPERM
    assert Filter(name, allow_memfd=True)("memfd_create") == ALLOWED


def test_processes_and_namespaces(name) -> None:
    alone, forking = Filter(name), Filter(name, allow_fork=True)
    for ask in (alone, forking):
        assert ask("clone3") == errno.ENOSYS
        assert ask("clone", CLONE_THREAD | 0x3D0F00 & ~0x7E020000) == ALLOWED
        spaces = [1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)]  # CLONE_NEWNS, CLONE_NEWCGROUP to CLONE_NEWNET
        assert {ask("clone", CLONE_THREAD | flag) for flag in spaces} == {errno.EPERM}
    assert alone("clone", SIGCHLD) == errno.EPERM and forking("clone", SIGCHLD) == ALLOWED
    for call in FORKING:
        if alone.has(call):
            assert alone(call) == errno.EPERM and forking(call) == ALLOWED


@pytest.mark.parametrize("at", [0, 1], ids=list(ARCHITECTURES))
def test_numbers_are_those_of_the_kernels_headers(at) -> None:
    if not HEADERS[at].exists():
        pytest.skip(f"{HEADERS[at]} is not on this machine")
    text = HEADERS[at].read_text()
    known = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    tables = (DENIED, PRETENDED, FORKING, BOUNDED, MEMFD, OURS)
    ours = {name: row[at] for table in tables for name, row in table.items()}
    newest = max(known.values())
    for call, number in ours.items():
        assert known.get(call) == number or number > newest, call
    assert len(known) > 250 and sum(call in known for call in ours) > 70


def test_calls_newer_than_424_have_one_number_on_both() -> None:
    for table in (DENIED, PRETENDED, BOUNDED):
        for name, (ours, theirs) in table.items():
            assert ours < 424 or ours == theirs, name


@pytest.mark.parametrize(
    ("machine", "pointer", "found"),
    [
        ("x86_64", 8, "x86_64"),
        ("aarch64", 8, "aarch64"),
        ("x86_64", 4, None),
        ("aarch64", 4, None),
        ("riscv64", 8, None),
    ],
)
def test_a_process_without_a_filter_is_known(monkeypatch, machine, pointer, found) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(calls.struct, "calcsize", lambda code: {"P": pointer}[code])
    assert calls.here() == ARCHITECTURES.get(found)
    if found is None:
        assert not seccomp.available()
        assert not seccomp.install(allow_fork=True, allow_socket=True, allow_connect=True, allow_memfd=True)


@pytest.mark.parametrize(("error", "there"), [(errno.EFAULT, True), (errno.EINVAL, False), (errno.EACCES, False)])
def test_the_kernel_is_asked_whether_it_takes_filters(monkeypatch, error, there) -> None:
    asked: list[tuple[object, ...]] = []

    class Libc:
        def prctl(self, *given):
            asked.append(given)
            calls.ctypes.set_errno(error)
            return -1

    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(seccomp, "LIBC", Libc())
    assert seccomp.available() is there
    assert seccomp.available() is there and set(asked) == {(22, 2, None, 0, 0)}
    if not there:
        assert not seccomp.install(allow_fork=True, allow_socket=True, allow_connect=True, allow_memfd=True)


def test_an_error_of_an_earlier_call_is_no_answer(monkeypatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(seccomp, "LIBC", SimpleNamespace(prctl=lambda *_: 0))
    calls.ctypes.set_errno(errno.EFAULT)
    assert not seccomp.available()


def test_architectures_are_what_the_kernel_calls_them() -> None:
    """linux/audit.h: the ELF machine, a bit for 64 bits and one for little-endian."""
    machines = {"x86_64": 62, "aarch64": 183}
    assert {name: one.audit for name, one in ARCHITECTURES.items()} == {
        name: machine | 0x80000000 | 0x40000000 for name, machine in machines.items()
    }


def test_a_call_that_an_architecture_lacks_has_no_number() -> None:
    assert ARCHITECTURES["x86_64"].number("fork") == 57
    for absent in ("fork", "no_such_call"):
        with pytest.raises(KeyError, match=absent):
            ARCHITECTURES["aarch64"].number(absent)
    assert ARCHITECTURES["aarch64"].numbers(FORKING) == [] and ARCHITECTURES["x86_64"].numbers(FORKING) == [57, 58]


def test_a_negative_result_is_an_error_with_its_number() -> None:
    calls.ctypes.set_errno(errno.EACCES)
    with pytest.raises(PermissionError):
        calls.checked(-1)
    assert calls.checked(0) == 0 and calls.checked(7) == 7
