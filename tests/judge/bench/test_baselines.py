"""torch.compile's times and code outlive the process that made them, each for its own problem."""

from __future__ import annotations

import pytest

from judge.bench.processes import baselines
from judge.bench.processes.baselines import Baselines
from judge.values import Basis, ProblemSpec, Subject, Timing

GROUP = "__grp__k.json"
PROBLEM, OTHER = ProblemSpec("class Model: ..."), ProblemSpec("class Model: ...", "large")
TIME = Timing(Subject.AUTOTUNE, Basis.MEASURED, "cuda_events", (1.0, 2.0, 3.0), 2.0, 1.0, 3.0, {"mode": "max-autotune"})


@pytest.fixture
def store(tmp_path):
    return Baselines(tmp_path / "baselines")


@pytest.fixture
def child(tmp_path):
    folder = tmp_path / "child"
    (folder / "inductor" / "fxgraph" / "ab").mkdir(parents=True)
    (folder / "inductor" / "fxgraph" / "ab" / "graph").write_bytes(b"graph")
    (folder / "triton" / ("A" * 32)).mkdir(parents=True)
    (folder / "triton" / ("A" * 32) / "k.cubin").write_bytes(b"code")
    (folder / "triton" / ("A" * 32) / "k.json").write_text("{}")
    (folder / "triton" / ("A" * 32) / "__grp__k.json").write_text('{"child_paths": {"k.json": "/gone/k.json"}}')
    return folder


def test_a_measurement_is_there_after_a_restart(store):
    store.keep(PROBLEM, TIME)
    assert Baselines(store.root).time(PROBLEM, Subject.AUTOTUNE) == TIME


def test_modes_and_cases_are_apart(store):
    store.keep(PROBLEM, TIME)
    assert store.time(PROBLEM, Subject.COMPILE) is None and store.time(OTHER, Subject.AUTOTUNE) is None


def test_a_torn_or_impossible_measurement_counts_for_nothing(store):
    store.keep(PROBLEM, TIME)
    [path] = store.root.rglob("time.json")
    for text in ("{", "{}", path.read_text().replace("2.0", "-2.0")):
        path.write_text(text)
        assert store.time(PROBLEM, Subject.AUTOTUNE) is None


def test_forgetting_keeps_the_code(store, child, tmp_path):
    store.keep(PROBLEM, TIME)
    store.take(PROBLEM, Subject.AUTOTUNE, child)
    store.forget(PROBLEM)
    assert store.time(PROBLEM, Subject.AUTOTUNE) is None
    assert store.seed(PROBLEM, Subject.AUTOTUNE, tmp_path / "next")


def test_code_goes_to_the_next_child_of_the_same_problem_only(store, child, tmp_path):
    assert store.take(PROBLEM, Subject.COMPILE, child)
    assert store.seed(PROBLEM, Subject.COMPILE, tmp_path / "next")
    copied = {str(path.relative_to(tmp_path / "next")) for path in (tmp_path / "next").rglob("*") if path.is_file()}
    kernel = f"triton/{'A' * 32}"
    assert copied == {"inductor/fxgraph/ab/graph", *(f"{kernel}/{name}" for name in ("k.cubin", "k.json", GROUP))}
    assert "/gone" not in (tmp_path / "next" / kernel / GROUP).read_text(), "Triton's lists hold paths"
    assert not store.seed(OTHER, Subject.COMPILE, tmp_path / "other") and not (tmp_path / "other").exists()


def test_links_are_not_followed(store, child, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (child / "inductor" / "link").symlink_to(tmp_path / "secret")
    (child / "inductor" / "folder").symlink_to(tmp_path)
    store.take(PROBLEM, Subject.COMPILE, child)
    assert {path.name for path in store.root.rglob("*") if path.is_file()} == {"graph", "k.cubin", "k.json"}


def test_nothing_compiled_keeps_nothing(store, tmp_path):
    (tmp_path / "empty").mkdir()
    assert not store.take(PROBLEM, Subject.COMPILE, tmp_path / "empty")
    assert not store.seed(PROBLEM, Subject.COMPILE, tmp_path / "next")


def test_too_much_code_is_not_kept(store, child, monkeypatch):
    monkeypatch.setattr(baselines, "MOST_BYTES", 3)
    assert not store.take(PROBLEM, Subject.COMPILE, child)
    assert not [path for path in store.root.rglob("*") if path.is_file()]


def test_the_code_used_longest_ago_makes_room(store, child, monkeypatch):
    store.keep(PROBLEM, TIME)
    store.take(PROBLEM, Subject.AUTOTUNE, child)
    monkeypatch.setattr(baselines, "KEPT_BYTES", 16)
    store.take(OTHER, Subject.AUTOTUNE, child)
    assert store.time(PROBLEM, Subject.AUTOTUNE) == TIME, "times stay"
    assert len(list(store.root.rglob("graph"))) == 1
