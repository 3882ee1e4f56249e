"""What Landlock is asked for, by the version of the kernel's interface."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from pathlib import Path

import pytest

from judge.bench.sandboxing import landlock

# linux/landlock.h: access rights of a file system, bit by bit; then of the network, and what a scope holds in.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR_TO_MAKE_SYM = 0x1FF0
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
FIRST = EXECUTE | WRITE_FILE | READ_FILE | READ_DIR | REMOVE_DIR_TO_MAKE_SYM
HANDLED = {
    1: (FIRST,),
    2: (FIRST | REFER,),
    3: (FIRST | REFER | TRUNCATE,),
    4: (FIRST | REFER | TRUNCATE, 3),
    5: (FIRST | REFER | TRUNCATE | IOCTL_DEV, 3),
    6: (FIRST | REFER | TRUNCATE | IOCTL_DEV, 3, 3),
    7: (FIRST | REFER | TRUNCATE | IOCTL_DEV, 3, 3),
    8: (FIRST | REFER | TRUNCATE | IOCTL_DEV, 3, 3),
}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Kernel:
    """Stands in for the C library: notes what is asked of Landlock version `abi`."""

    def __init__(self, abi: int) -> None:
        self.abi = abi
        self.handled: tuple[int, ...] = ()
        self.rules: dict[str, int] = {}
        self.restricted: list[int] = []
        self.ruleset = os.open("/dev/null", os.O_RDONLY)

    def syscall(self, number, *given):
        if number == 444 and given[0] is None:
            assert (given[1].value, given[2].value) == (0, 1)  # LANDLOCK_CREATE_RULESET_VERSION
            return self.abi
        if number == 444:
            attributes, size, flags = given[0].value, given[1].value, given[2].value
            text = ctypes.string_at(ctypes.cast(given[0], ctypes.c_void_p).value, size)
            assert flags == 0 and attributes is not None
            self.handled = struct.unpack(f"{size // 8}Q", text)
            return self.ruleset
        if number == 445:
            ruleset, kind, rule, flags = given
            access, handle = struct.unpack("=Qi", ctypes.string_at(ctypes.cast(rule, ctypes.c_void_p).value, 12))
            assert fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_PATH, "nothing is opened for reading"
            assert fcntl.fcntl(handle, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
            assert (ruleset, kind, flags.value) == (self.ruleset, 1, 0)  # LANDLOCK_RULE_PATH_BENEATH
            self.rules[str(Path(f"/proc/self/fd/{handle}").readlink())] = access
            return 0
        assert number == 446 and given[1].value == (8 if self.abi >= 8 else 0)  # LANDLOCK_RESTRICT_SELF_TSYNC
        os.fstat(self.ruleset)
        self.restricted.append(given[0])
        return 0


@pytest.fixture
def machine(tmp_path):
    for name in ("readable", "writable"):
        (tmp_path / name).mkdir()
    for name in ("file", "own", "device"):
        (tmp_path / name).touch()
    return tmp_path


def restrict(monkeypatch, machine, abi: int) -> tuple[Kernel, int]:
    kernel = Kernel(abi)
    monkeypatch.setattr(landlock, "LIBC", kernel)
    monkeypatch.setattr(landlock, "_prove", lambda: None)
    found = landlock.restrict(
        read=[str(machine / "readable"), str(machine / "file"), str(machine / "absent")],
        write=[str(machine / "writable"), str(machine / "own")],
        devices=[str(machine / "device")],
    )
    return kernel, found


@pytest.mark.parametrize("abi", HANDLED)
def test_every_right_that_the_version_knows_is_taken_and_given_back_by_rule(monkeypatch, machine, abi) -> None:
    before = descriptors()
    kernel, found = restrict(monkeypatch, machine, abi)
    assert found == abi and kernel.handled == HANDLED[abi] and kernel.restricted == [kernel.ruleset]
    whole = HANDLED[abi][0]
    on_file = whole & (EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV)
    rules = {place.removeprefix(f"{machine}/"): access for place, access in kernel.rules.items()}
    assert rules == {
        "readable": EXECUTE | READ_FILE | READ_DIR,
        "file": EXECUTE | READ_FILE,
        "writable": whole,
        "own": on_file,
        "device": on_file,
    }
    assert descriptors() == before  # neither rules nor the ruleset stay open


@pytest.mark.parametrize("version", [0, -1])
def test_a_kernel_without_landlock_is_asked_for_nothing(monkeypatch, machine, version) -> None:
    kernel, found = restrict(monkeypatch, machine, version)
    assert found == landlock.abi() == 0 and not kernel.rules and not kernel.restricted
    os.close(kernel.ruleset)


def test_where_the_root_folder_can_be_listed_nothing_is_restricted(monkeypatch) -> None:
    before = descriptors()
    with pytest.raises(OSError, match="does not apply"):
        landlock._prove()
    assert descriptors() == before

    def refused(path, flags):
        assert (path, flags) == ("/", os.O_RDONLY | os.O_DIRECTORY)
        raise PermissionError

    monkeypatch.setattr(os, "open", refused)
    landlock._prove()


@pytest.mark.parametrize("failing", [444, 445, 446])
def test_a_call_that_fails_is_an_error_and_leaves_no_descriptor(monkeypatch, machine, failing) -> None:
    kernel = Kernel(7)
    works = kernel.syscall

    def syscall(number, *given):
        if number == failing and given[0] is not None:
            ctypes.set_errno(errno.ENOMEM)
            return -1
        return works(number, *given)

    kernel.syscall = syscall
    monkeypatch.setattr(landlock, "LIBC", kernel)
    before = descriptors()
    with pytest.raises(OSError, match="Cannot allocate memory"):
        landlock.restrict(read=[str(machine / "readable")], write=[str(machine / "writable")])
    if failing == 444:
        os.close(kernel.ruleset)
    assert descriptors() == before - 1
