"""What was compiled ahead is found by Triton's own launch: nothing is compiled or built a second time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from judge.bench.compiling.tuning_choices import read_choices
from judge.bench.processes.artefacts import Handover
from judge.bench.runner import Bench
from judge.values import Job, Limits, ProblemSpec, Verdict, canonical_text
from tests.judge import handover_child, idle_driver
from tests.judge.bench_problems import PROBLEM, TRITON

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(shutil.which("cc") is None, reason="Triton's host modules need a C compiler"),
]
LIMITS = Limits(wall_s=300, stage_s=200)


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


def handed_over(bench: Bench, folder: Path, source: str = TRITON) -> Handover:
    """Compile the candidate and give what came of it to a child with this folder."""
    job = Job("handover", ProblemSpec(PROBLEM), source, limits=LIMITS)
    report, _ = bench.compiling.run(job)
    assert report.verdict is Verdict.COMPILED_ONLY
    bench.compiling.build_stubs(report)
    (folder / "triton").mkdir(parents=True)
    found = bench.compiling.hand_over(source, job.problem, folder)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def launch(driver):
    """Launches in processes forked from one that has loaded torch and Triton, as those of a bench are."""
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(root)]))}
    command, pipe = [sys.executable, handover_child.__file__], subprocess.PIPE
    with (
        (driver / "log").open("w") as log,
        subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=log, text=True) as process,
    ):

        def launched(given: Handover, source: str = TRITON) -> list[float]:
            """Milliseconds of the first and second forward in a process that was given this."""
            payload = {"source": source, "init": [64], "shape": [16, 64], "handover": given.payload}
            (given.folder / "payload.json").write_text(json.dumps(payload))
            (given.folder / "tmp").mkdir(exist_ok=True)
            process.stdin.write(f"{given.folder}\n")
            process.stdin.flush()
            said = process.stdout.readline()
            assert said.startswith("TIMES ") and process.stdout.readline() == "ENDED 0\n", (driver / "log").read_text()
            return list(json.loads(said.removeprefix("TIMES ")))

        yield launched


def test_nothing_is_compiled_twice_and_no_host_module_is_rebuilt(bench, launch, tmp_path):
    given = handed_over(bench, tmp_path / "child")
    first_ms, _ = launch(given)
    sys.stdout.write(f"\nfirst forward with everything handed over: {first_ms:.0f} ms\n")
    assert given.made_here() == (0, 0)


def test_an_autotuner_finds_its_configurations_and_tells_its_choice(bench, launch, tmp_path):
    configs = "[triton.Config({}, num_warps=w) for w in (1, 2, 64, 4)]"
    source = TRITON.replace("@triton.jit", f"@triton.autotune({configs}, key=['n'])\n@triton.jit")
    given = handed_over(bench, tmp_path / "child", source)
    launch(given, source)
    assert given.made_here() == (0, 0), "also the one that does not fit is not tried again"
    [choice] = read_choices(given.folder)
    [row] = given.payload["tuned"]
    assert choice["kernel"] == row["kernel"] and choice["key"] == row["key"]
    assert len(row["compiled"]) == 3 and choice["config"] in row["compiled"]


def test_without_the_handover_both_would_be(bench, launch, tmp_path):
    (tmp_path / "child" / "triton").mkdir(parents=True)
    empty = Handover("", tmp_path / "child", frozenset(), {})
    first_ms, _ = launch(empty)
    sys.stdout.write(f"\nfirst forward without anything: {first_ms:.0f} ms\n")
    kernels, stubs = empty.made_here()
    assert kernels == 1 and stubs >= 1


def test_host_modules_are_built_once_for_all_candidates(bench, tmp_path):
    handed_over(bench, tmp_path / "one")
    shared = {path: path.stat().st_mtime_ns for path in bench.compiling.pool.shared.rglob("*.so")}
    handed_over(bench, tmp_path / "two")
    assert shared and shared == {path: path.stat().st_mtime_ns for path in bench.compiling.pool.shared.rglob("*.so")}


@pytest.fixture(scope="module")
def gpu_bench(driver):
    """The bench of a GPU, on a machine that need not have one: what follows never touches it."""
    with Bench("cuda:0", lock_folder=driver) as bench:
        yield bench


def test_a_failure_to_compile_never_touches_the_gpu(gpu_bench):
    source = TRITON.replace("tl.sum(v, 0) / n", "tl.no_such_function(v)")
    outcome = gpu_bench.evaluate(Job("broken", ProblemSpec(PROBLEM), source, limits=LIMITS))
    assert (outcome.verdict, outcome.reason) == (Verdict.COMPILE_FAILED, "compile.error")
    assert set(outcome.environment["children"]) == {"compiler", "recorder"}
    assert [stage.name for stage in outcome.stages] == ["parse", "compile"]


def test_compiling_ahead_leaves_everything_for_the_child(gpu_bench, launch, tmp_path):
    job = Job("ahead", ProblemSpec(PROBLEM), TRITON, limits=LIMITS)
    assert gpu_bench.compile(job).verdict is Verdict.COMPILED_ONLY
    (tmp_path / "child" / "triton").mkdir(parents=True)
    given = gpu_bench.compiling.hand_over(TRITON, job.problem, tmp_path / "child")
    assert given is not None
    launch(given, canonical_text(TRITON).text)  # as children load it
    assert given.made_here() == (0, 0)


def test_code_without_triton_is_not_compiled_ahead_on_a_gpu(gpu_bench, tmp_path):
    assert not gpu_bench.compiling.wanted("import torch\n")
    assert gpu_bench.compiling.hand_over("import torch\n", ProblemSpec(PROBLEM), tmp_path) is None
