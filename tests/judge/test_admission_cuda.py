"""The preflight on a real GPU: every sample's gpu case is admitted and takes a time worth measuring."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from judge.bench.admission import admit
from judge.bench.loading import load_problem
from judge.services.folders import SAMPLES

FILES = sorted(path for path in SAMPLES.glob("*.py") if path.name != "__init__.py")

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_gpu_case_is_admitted_and_timed(path: Path, tmp_path: Path, record_property) -> None:
    report = admit(load_problem(path.read_text(), "gpu", tmp_path), "cuda:0", lambda stage: None, "sm_90")
    record_property("eager_us", report.eager_us)
    assert (report.state, report.message, report.case) == ("admitted", "", "gpu")
    assert report.graph and report.stages[-1].name == "baseline"
    assert 20 < report.eager_us < 5000
