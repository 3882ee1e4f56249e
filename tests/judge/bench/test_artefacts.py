"""Compiled kernels on disk: copied by name as bytes, given to one candidate's children, never through a link."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from judge.bench.processes import artefacts
from judge.bench.processes.artefacts import Artefacts, artefact_key, made_here
from judge.bench.processes.stopping import stoppable
from judge.values import Stopped

KEY = artefact_key("source", "problem", None)
NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
OTHER = NAME[::-1]


@pytest.fixture
def pool(tmp_path: Path) -> Artefacts:
    return Artefacts(tmp_path / "pool")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A Triton cache folder with one kernel, as a recorder leaves it."""
    folder = tmp_path / "recorder" / "triton"
    kernel = folder / NAME
    kernel.mkdir(parents=True)
    (kernel / "add.cubin").write_bytes(b"machine code")
    (kernel / "add.json").write_text("{}")
    (kernel / "__grp__add.json").write_text(json.dumps({"child_paths": {"add.json": "/elsewhere/add.json"}}))
    return folder


def test_a_child_gets_its_own_copy_with_its_own_list_of_files(pool, cache, tmp_path):
    pool.take(cache, KEY)
    given = pool.seed(KEY, tmp_path / "child" / "triton") if (tmp_path / "child").mkdir() is None else None
    kernel = tmp_path / "child" / "triton" / NAME
    assert given == {NAME}
    assert (kernel / "add.cubin").read_bytes() == b"machine code"
    listed = json.loads((kernel / "__grp__add.json").read_text())["child_paths"]
    assert listed == {name: str(kernel / name) for name in ("add.cubin", "add.json")}


def test_what_a_child_does_to_its_copy_reaches_nobody(pool, cache, tmp_path):
    pool.take(cache, KEY)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        pool.seed(KEY, tmp_path / name)
        (tmp_path / name / NAME / "add.cubin").write_bytes(b"forged")
    (tmp_path / "c").mkdir()
    pool.seed(KEY, tmp_path / "c")
    assert (tmp_path / "c" / NAME / "add.cubin").read_bytes() == b"machine code"


def test_other_candidates_get_only_what_the_judge_built(pool, cache, tmp_path):
    pool.take(cache, KEY)
    stub = tmp_path / "built" / OTHER
    stub.mkdir(parents=True)
    (stub / "cuda_utils.cpython-311-x86_64-linux-gnu.so").write_bytes(b"elf")
    pool.share(tmp_path / "built")
    assert pool.seed(artefact_key("other source", "problem", None), tmp_path / "child") == {OTHER}


def test_links_devices_and_odd_names_are_left_behind(pool, cache, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (cache / NAME / "linked.ptx").symlink_to(tmp_path / "secret")
    os.mkfifo(cache / NAME / "pipe.ptx")
    (cache / NAME / "-rf").write_text("x")
    (cache / OTHER).symlink_to(tmp_path)
    (cache / "short").mkdir()
    pool.take(cache, KEY)
    pool.seed(KEY, tmp_path / "child")
    kept = {path.name for path in (tmp_path / "child").rglob("*") if path.is_file()}
    assert kept == {"add.cubin", "add.json", "__grp__add.json"}


def test_too_many_files_are_not_taken(pool, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(artefacts, "MOST_FILES", 1)
    pool.take(cache, KEY)
    assert pool.seed(KEY, tmp_path / "child") == frozenset()


def test_what_a_child_made_itself_is_counted(pool, cache, tmp_path):
    pool.take(cache, KEY)
    given = pool.seed(KEY, tmp_path / "child")
    assert made_here(tmp_path / "child", given) == (0, 0)
    for number, file in enumerate(("sub.cubin", "__triton_launcher.so", "choice.autotune.json")):
        folder = tmp_path / "child" / f"{OTHER}{number}"
        folder.mkdir()
        (folder / file).write_bytes(b"x")
    assert made_here(tmp_path / "child", given) == (1, 1)


def test_a_report_is_known_once_it_is_noted(pool):
    assert pool.known(KEY) is None
    pool.note(KEY, {"report": 1})
    assert pool.known(KEY) == {"report": 1} and Artefacts(pool.root).known(KEY) == {"report": 1}


def test_a_torn_report_is_unknown(pool):
    pool.note(KEY, {})
    (pool.root / "kernels" / KEY / "report.json").write_text('{"report": ')
    assert pool.known(KEY) is None


def test_keys_are_digests(pool):
    with pytest.raises(ValueError, match="no key"):
        pool.known("../../etc")


def test_the_key_is_of_text_problem_and_case():
    keys = {artefact_key(*parts) for parts in (("a", "p", None), ("b", "p", None), ("a", "q", None), ("a", "p", "x"))}
    assert len(keys) == 4


def test_the_longest_unused_goes_first(pool, monkeypatch):
    monkeypatch.setattr(artefacts, "KEPT_ENTRIES", 2)
    keys = [artefact_key(str(number), "p", None) for number in range(3)]
    for number, key in enumerate(keys):
        pool.note(key, {})
        os.utime(pool.root / "kernels" / key, (number, number))
    pool.known(keys[0])  # used just now
    pool.trim()
    assert [pool.known(key) is not None for key in keys] == [True, False, True]


def test_who_waits_for_what_somebody_else_compiles_stops_when_asked_to(pool):
    with pool.claim(KEY), stoppable(lambda: True), pytest.raises(Stopped), Artefacts(pool.root).claim(KEY):
        pytest.fail("it is somebody else's")
    with pool.claim(KEY):
        pass
