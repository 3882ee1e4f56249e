"""A child that is still alive swaps folders for links while its files are copied or listed."""

from __future__ import annotations

import ctypes
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from judge.bench.processes import inspection, plain_files
from judge.bench.processes.artefacts import copy_kernels, made_here
from judge.bench.processes.baselines import Baselines
from judge.values import ProblemSpec, Subject

NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
EXCHANGE = 2  # RENAME_EXCHANGE
LIBC = ctypes.CDLL(None, use_errno=True)


def exchange(one: Path, other: Path) -> None:
    assert LIBC.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), EXCHANGE) == 0


@pytest.fixture
def child(tmp_path: Path) -> Path:
    """A child's folder with its own kernel and compiled code, and links to another candidate's beside them."""
    for owner, text in (("child", "own"), ("foreign", "foreign")):
        for place in (f"triton/{NAME}", "inductor/ab"):
            folder = tmp_path / owner / place
            folder.mkdir(parents=True)
            (folder / "code.cubin").write_text(text)
    for place in (f"triton/{NAME}", "inductor/ab", "triton", "inductor"):
        name = place.replace("/", "-")
        (tmp_path / "child" / f".{name}").symlink_to(tmp_path / "foreign" / place)
    return tmp_path / "child"


@pytest.fixture
def swap_after_listing(monkeypatch) -> Callable[[Path, Path], list[int]]:
    """Exchange two paths right after a folder with the kernel or the code was listed."""

    def prepare(one: Path, other: Path) -> list[int]:
        listed, entries = [], plain_files._entries

        def swapping(folder: int, named: re.Pattern[str]):
            found = entries(folder, named)
            if found[1]:
                listed.append(folder)
                exchange(one, other)
            return found

        monkeypatch.setattr(plain_files, "_entries", swapping)
        return listed

    return prepare


def texts(folder: Path) -> set[str]:
    return {path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("place", [f"triton/{NAME}", "triton"])
def test_a_kernel_s_folder_that_becomes_a_link_after_it_was_listed_is_copied_as_it_was(
    child, tmp_path, swap_after_listing, place
) -> None:
    listed = swap_after_listing(child / place, child / f".{place.replace('/', '-')}")
    assert copy_kernels(child / "triton", tmp_path / "kept") == 1
    assert len(listed) == 1 and texts(tmp_path / "kept") == {"own"}


@pytest.mark.parametrize("place", ["inductor/ab", "inductor"])
def test_compiled_code_is_copied_from_the_folders_that_were_listed(child, tmp_path, swap_after_listing, place) -> None:
    store = Baselines(tmp_path / "store")
    listed = swap_after_listing(child / place, child / f".{place.replace('/', '-')}")
    store.take(ProblemSpec("x = 1"), Subject.COMPILE, child)
    assert listed and "foreign" not in texts(tmp_path / "store")


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """A process that exchanges two paths without a pause."""
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                exchange(one, other)
        finally:
            os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("place", [f"triton/{NAME}", "triton"])
def test_no_copy_holds_a_foreign_file_while_a_process_swaps_folders(child, tmp_path, place) -> None:
    copied = 0
    with swapping(child / place, child / f".{place.replace('/', '-')}"):
        for number in range(200):
            copied += copy_kernels(child / "triton", tmp_path / "kept" / str(number))
            assert made_here(child / "triton", frozenset()) in ((0, 0), (1, 0))
    assert "foreign" not in texts(tmp_path / "kept")
    assert copied == sum(path.is_file() for path in (tmp_path / "kept").rglob("*"))


def test_what_is_listed_of_a_child_is_below_its_folder(child, tmp_path, monkeypatch) -> None:
    (tmp_path / "foreign" / "secret.txt").write_text("names tell something, too")
    (child / "deep" / "er").mkdir(parents=True)
    (child / "deep" / "er" / "own.txt").touch()
    (child / ".deep").symlink_to(tmp_path / "foreign")
    opened = inspection.opened

    @contextmanager
    def swapped(place, above=None):
        if place == "deep" and above is not None:
            exchange(child / "deep", child / ".deep")
        with opened(place, above) as found:
            yield found

    assert "deep/er/own.txt" in inspection._files(child)
    monkeypatch.setattr(inspection, "opened", swapped)
    assert not any("secret" in name or "own" in name for name in inspection._files(child))


def test_a_file_that_grows_is_copied_as_far_as_it_was_announced(tmp_path) -> None:
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "code").write_text("1234")
    with plain_files.opened(tmp_path / "top") as folder:
        (file,) = plain_files.files(folder, re.compile(".*"))
        (tmp_path / "top" / "code").write_text("123456789")
        file.copy(tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "1234"


def test_folders_further_down_than_asked_for_are_left_out(tmp_path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    for place in ("", "a", "a/b", "a/b/c"):
        (tmp_path / place / "file").touch()
    found = {str(one.place) for one in plain_files.tree(tmp_path, re.compile("[a-z]+"), 2)}
    assert found == {".", "a", "a/b"}
    assert list(plain_files.tree(tmp_path / "absent", re.compile(".*"), 2)) == []
