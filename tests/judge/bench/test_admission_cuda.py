"""The preflight on a real GPU: every sample's gpu case is admitted and takes a time worth measuring."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from judge.bench.admission.admission import admit
from judge.bench.foreign.loading import load_problem
from judge.problems.services import SAMPLES
from tests.judge.problems.test_recorded_problems import FLAGGED, FOLDER, SMALL, source

FILES = sorted(path for path in SAMPLES.glob("*.py") if path.name != "__init__.py")

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]


@pytest.fixture(autouse=True)
def given_back():
    """The preflight runs in this process here: what it leaves cached would be missing to the benches of other tests."""
    yield
    torch.cuda.empty_cache()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_gpu_case_is_admitted_and_timed(path: Path, tmp_path: Path, record_property) -> None:
    report = admit(load_problem(path.read_text(), "gpu", tmp_path), "cuda:0", lambda stage: None, "sm_90")
    record_property("eager_us", report.eager_us)
    assert (report.state, report.message, report.case) == ("admitted", "", "gpu")
    assert report.graph and "baseline" in [stage.name for stage in report.stages] and report.flaws == ()
    assert 20 < report.eager_us < 5000 and report.eager.n == 32
    record_property("bound_us", report.roofline.bound_us)
    assert report.roofline.bound_us < 1.1 * report.eager.median_us  # nothing is faster than its bound


@pytest.mark.parametrize("number", SMALL)
def test_the_recorded_problems_at_their_own_size(number: int, tmp_path: Path, record_property) -> None:
    if not FOLDER.is_dir():
        pytest.skip("ADAEXPLORE_FIXTURES names no folder with recorded searches")
    report = admit(load_problem(source(number), None, tmp_path), "cuda:0", lambda stage: None, "sm_90")
    record_property("wall_ms", report.wall_ms)
    flagged = number in FLAGGED
    assert report.state == ("degenerate" if flagged else "admitted")
    assert ("problem.dead_ops" in {flaw.code for flaw in report.flaws}) == flagged  # 42 is ill-conditioned, too
    assert report.eager_us
