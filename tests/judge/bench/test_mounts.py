"""Which places make up a child's file system, and how each of them is mounted there."""

from __future__ import annotations

import errno
import os
import shutil
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from judge.bench.sandboxing import mounts

BIND, RECURSIVE = 0x1000, 0x4000


def test_a_path_is_followed_to_its_place_and_the_links_on_the_way_are_kept(tmp_path) -> None:
    (tmp_path / "real" / "bin").mkdir(parents=True)
    (tmp_path / "real" / "bin" / "tool").touch()
    (tmp_path / "relative").symlink_to("real")
    (tmp_path / "absolute").symlink_to(f"{tmp_path}/relative/bin")
    (tmp_path / "real" / "up").symlink_to("../relative/./bin/tool")
    links: dict[str, str] = {}
    assert mounts._resolved(f"{tmp_path}/absolute/tool", links) == f"{tmp_path}/real/bin/tool"
    assert links == {f"{tmp_path}/absolute": f"{tmp_path}/relative/bin", f"{tmp_path}/relative": "real"}
    assert mounts._resolved(f"{tmp_path}//real/bin/../up", {}) == f"{tmp_path}/real/bin/tool"
    assert mounts._resolved("/", {}) == mounts._resolved("/..", {}) == "/"


def test_what_is_not_there_and_a_circle_of_links_is_no_place(tmp_path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "dangling").symlink_to("nowhere")
    wanted = [f"{tmp_path}/{name}" for name in ("one", "dangling", "absent", "absent/below")]
    assert mounts._places([*wanted, str(tmp_path)], {}) == [str(tmp_path)]
    for number in range(mounts.MOST_LINKS + 1):
        (tmp_path / f"l{number}").symlink_to(f"l{number - 1}" if number else ".")
    assert mounts._resolved(f"{tmp_path}/l{mounts.MOST_LINKS - 1}", {}) == str(tmp_path)
    assert mounts._resolved(f"{tmp_path}/l{mounts.MOST_LINKS}", {}) is None


def test_the_whole_file_system_is_no_file_system_of_its_own(tmp_path) -> None:
    with pytest.raises(OSError, match="the whole file system"):
        mounts.enter(read=["/"], write=str(tmp_path), devices=[])
    assert list(tmp_path.iterdir()) == []


def test_an_architecture_without_known_calls_has_no_file_system_of_its_own(monkeypatch) -> None:
    monkeypatch.setattr(mounts.calls, "here", lambda: None)
    with pytest.raises(OSError, match="numbers of its system calls are not known") as refused:
        mounts._set_attributes("/", mounts.READ_ONLY, 0)
    assert refused.value.errno == errno.ENOSYS


@pytest.fixture
def kernel(monkeypatch):
    """Stands in for the C library: notes mounts with their flags, and attributes with theirs."""
    noted: dict[str, list[tuple]] = {"mount": [], "attributes": []}

    def syscall(number, folder, path, flags, wanted, size):
        assert (number, folder, size.value) == (442, -100, 32)
        noted["attributes"].append((path.value.decode(), flags.value, *struct.unpack("4Q", wanted)))
        return 0

    def mount(source, target, kind, flags, options):
        noted["mount"].append((source.decode(), target.decode(), flags.value))
        return 0

    monkeypatch.setattr(mounts, "LIBC", SimpleNamespace(syscall=syscall, mount=mount))
    monkeypatch.setattr(mounts.os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    return noted


def test_a_folder_brings_what_is_mounted_in_it_read_only_and_the_child_s_own_only_itself(kernel, tmp_path) -> None:
    root, top = tmp_path / "root", tmp_path / "top"
    (top / "within").mkdir(parents=True)
    (top / "device").touch()
    places = {str(top / "within"): 3, str(top / "device"): 2}
    mounts._bind(str(top / "within"), root, places, recursive=True)
    mounts._bind(str(top / "device"), root, places, recursive=False)
    made = [f"{root}{top}/within", f"{root}{top}/device"]
    assert kernel["mount"] == [
        (f"{top}/within", made[0], BIND | RECURSIVE), (f"{top}/device", made[1], BIND),
    ]  # fmt: skip
    assert kernel["attributes"] == [(made[0], 0x8000, 3, 0, 0, 0), (made[1], 0, 2, 0, 0, 0)]
    assert Path(made[0]).is_dir() and Path(made[1]).is_file()


def test_what_lies_in_a_mounted_folder_needs_no_place_of_its_own(kernel, tmp_path) -> None:
    root, top = tmp_path / "root", tmp_path / "top"
    (top / "within").mkdir(parents=True)
    mounts._bind(str(top / "within"), root, {str(top): 3, str(top / "within"): 2}, recursive=False)
    assert not root.exists() and len(kernel["mount"]) == 1


def test_everything_but_the_own_folder_is_mounted_with_what_is_in_it(monkeypatch, tmp_path, tmp_path_factory) -> None:
    bound, linked, ended = {}, {}, RuntimeError("no further")
    link = tmp_path_factory.mktemp("other") / "link"  # in a folder that nothing else needs
    link.symlink_to("/usr")
    monkeypatch.setattr(mounts, "_mount", lambda *_: None)
    monkeypatch.setattr(Path, "is_mount", lambda path: True)
    monkeypatch.setattr(mounts.LIBC, "umount2", lambda *_: 0, raising=False)

    def bind(place, root, places, *, recursive):
        bound[place] = (places[place], recursive)

    def stop():
        linked[str(link)] = str(Path(str(link).lstrip("/")).readlink())
        shutil.rmtree(str(link).split("/")[1])
        raise ended

    monkeypatch.setattr(mounts, "_bind", bind)
    monkeypatch.setattr(mounts, "_become_root", stop)
    before = Path.cwd()
    try:
        with pytest.raises(RuntimeError, match="no further"):
            mounts.enter(read=[f"{link}/share", "/usr", "/absent"], write=str(tmp_path), devices=["/dev/null"])
    finally:
        os.chdir(before)
    assert linked == {str(link): "/usr"}
    assert bound == {"/usr": (3, True), "/usr/share": (3, True), "/dev/null": (2, True), str(tmp_path): (2, False)}
    assert not (tmp_path / mounts.POINT).exists()
