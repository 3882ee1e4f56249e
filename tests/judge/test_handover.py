"""What was compiled ahead is found by Triton's own launch: nothing is compiled or built a second time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from judge.bench.artefacts import Handover
from judge.runner import Bench
from judge.values import Job, Limits, ProblemSpec, Verdict
from tests.judge import handover_child, idle_driver
from tests.judge.bench_problems import PROBLEM, TRITON

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(shutil.which("cc") is None, reason="Triton's host modules need a C compiler"),
]
LIMITS = Limits(wall_s=90, stage_s=60)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The idle driver's folder, where Triton and the loader look for it."""
    folder = tmp_path_factory.mktemp("driver")
    idle_driver.build(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRITON_LIBCUDA_PATH", str(folder))
        patched.setenv("LD_LIBRARY_PATH", f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":"))
        yield folder


@pytest.fixture(scope="module")
def bench(driver):
    with Bench("compile:sm_90") as bench:
        yield bench


def handed_over(bench: Bench, folder: Path, *, stubs: bool = True) -> Handover:
    """Compile the candidate and give what came of it to a child with this folder."""
    job = Job("handover", ProblemSpec(PROBLEM), TRITON, limits=LIMITS)
    report, _ = bench.compiling.run(job)
    assert report.verdict is Verdict.COMPILED_ONLY
    if stubs:
        bench.compiling.build_stubs(report)
    (folder / "triton").mkdir(parents=True)
    found = bench.compiling.hand_over(TRITON, job.problem, folder)
    assert found is not None
    return found


def launch(folder: Path) -> list[float]:
    """Milliseconds of the first and second forward in a process with that cache."""
    (folder / "payload.json").write_text(json.dumps({"source": TRITON, "init": [64], "shape": [16, 64]}))
    (folder / "tmp").mkdir(exist_ok=True)
    env = {**os.environ, "TRITON_CACHE_DIR": str(folder / "triton"), "TMPDIR": str(folder / "tmp")}
    command = [sys.executable, handover_child.__file__, str(folder)]
    root = Path(__file__).parents[2]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(root)]))
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("TIMES "))
    return list(json.loads(line.removeprefix("TIMES ")))


def test_nothing_is_compiled_twice_and_no_host_module_is_rebuilt(bench, tmp_path):
    given = handed_over(bench, tmp_path / "child")
    first_ms, _ = launch(tmp_path / "child")
    sys.stdout.write(f"\nfirst forward with everything handed over: {first_ms:.0f} ms\n")
    assert given.made_here() == (0, 0)


def test_without_the_handover_both_would_be(bench, tmp_path):
    (tmp_path / "child" / "triton").mkdir(parents=True)
    empty = Handover("", tmp_path / "child", frozenset(), {})
    first_ms, _ = launch(tmp_path / "child")
    sys.stdout.write(f"\nfirst forward without anything: {first_ms:.0f} ms\n")
    kernels, stubs = empty.made_here()
    assert kernels == 1 and stubs >= 1


def test_host_modules_are_built_once_for_all_candidates(bench, tmp_path):
    handed_over(bench, tmp_path / "one")
    shared = {path: path.stat().st_mtime_ns for path in bench.compiling.pool.shared.rglob("*.so")}
    handed_over(bench, tmp_path / "two")
    assert shared and shared == {path: path.stat().st_mtime_ns for path in bench.compiling.pool.shared.rglob("*.so")}
