"""A bench of an account that keeps its files to itself: closed folders above it, a strict umask, working children."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.bench.processes.children import private_folder, temporary_place
from judge.bench.runner import Bench
from judge.doctor.probing import probe
from judge.values import Job, Limits, ProblemSpec, Verdict
from tests.judge.bench_problems import PROBLEM, TRITON

LIMITS = Limits(wall_s=300, stage_s=200)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder as the dashboard makes it, with the temporary folder inside, and the dashboard's umask."""
    with tempfile.TemporaryDirectory(prefix="closed-") as name:  # of mode 700; a short path, since sockets need one
        folder = Path(name)
        (folder / "tmp").mkdir(mode=0o700)
        monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
        before = os.umask(0o077)
        yield folder
        os.umask(before)


@pytest.mark.bench
def test_the_interpreter_and_its_compiler_work_below_a_closed_folder(closed: Path) -> None:
    with Bench("interpreter", artefacts=closed / "artefacts") as bench:
        outcome = bench.evaluate(Job("private", ProblemSpec(PROBLEM), TRITON, limits=LIMITS))
        assert (outcome.verdict, outcome.message) == (Verdict.PASS, "")
        found = probe(bench).tools["compiler"]
        assert found["works"], found["says"]


@pytest.mark.bench
def test_kernels_are_compiled_ahead_and_kept_below_a_closed_folder(closed: Path) -> None:
    kept = closed / "artefacts"
    job = Job("private", ProblemSpec(PROBLEM), TRITON, limits=LIMITS)
    for detail in ("1 launch of 1 kernel", "1 launch of 1 kernel, known from before"):
        with Bench("compile:sm_90", artefacts=kept) as bench:
            outcome = bench.evaluate(job)
        assert (outcome.verdict, outcome.stages[-1].detail) == (Verdict.COMPILED_ONLY, detail)
    assert {path.stat().st_mode & 0o077 for path in kept.rglob("*")} == {0}


def test_a_bench_as_root_takes_a_temporary_folder_that_its_children_can_use(closed: Path, monkeypatch) -> None:
    """access(2) goes by the real user id, which a root's children give away: a folder of mode 700 stops them."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert temporary_place() in (Path("/tmp"), Path("/var/tmp"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert temporary_place() == closed / "tmp"
    folder = private_folder()
    assert folder.parent == closed / "tmp" and folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
