"""The reference modules inside the published searches: two are real, three can be won without doing the work."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from judge.problems.admission import settled_state
from tests.judge.problem_texts import examine

FOLDER = Path(os.environ.get("ADAEXPLORE_FIXTURES", "nowhere")) / "recorded_searches"
SMALL = {
    18: "batch_size = 32; in_features = 64; out_features = 48",
    42: "batch_size = 2; in_channels = 6; out_channels = 8; height = width = 12; bias_shape = (out_channels, 1, 1)",
    44: "batch_size = 2; in_channels = 6; out_channels = 8; height = width = 12",
    63: "batch_size = 32; in_features = 64; out_features = 48",
    70: "batch_size = 32; input_size = 64; hidden_size = 48",
}
FLAGGED = (18, 42, 44)  # reductions of one element, and products of which only sums are used

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="ADAEXPLORE_FIXTURES names no folder with recorded searches"
)


def source(number: int) -> str:
    packed = (FOLDER / f"kb-l2-p{number}-200.json.gz").read_bytes()
    return str(json.loads(gzip.decompress(packed))["reference_src"])


@pytest.mark.parametrize("number", SMALL)
def test_at_a_size_that_the_interpreter_takes(number: int, tmp_path: Path) -> None:
    report = examine(f"{source(number)}\n{SMALL[number]}\n", tmp_path)
    if number not in FLAGGED:
        assert (report.state, report.message, report.flaws) == ("admitted", "", ())
        return
    assert (report.state, report.reason) == ("degenerate", "problem.dead_ops")
    assert [flaw.code for flaw in report.flaws] == ["problem.dead_ops", "problem.collapses"]


@pytest.mark.parametrize("number", SMALL)
def test_at_their_own_size_shapes_alone_tell(number: int, tmp_path: Path) -> None:
    """Too large to run here; what their shapes say is known all the same, and flags the problem."""
    report = examine(source(number), tmp_path)
    assert (report.state, report.reason) == ("refused", "problem.too_big_for_interpreter")
    assert bool(report.flaws) == (number in FLAGGED)
    expected = "degenerate" if number in FLAGGED else "pending"
    assert settled_state({"interpreter": report.to_json()}, before="pending") == expected
