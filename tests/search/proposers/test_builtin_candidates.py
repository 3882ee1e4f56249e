"""What the built-in proposer writes computes what the reference computes, and compiles for a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.search.builtin_cases import CASES

ROOT = Path(__file__).resolve().parents[3]
COMPILED = (
    "bias_gelu",
    "layer_norm",
    "softmax_middle",
    "linear_norm",
    "residual_sigmoid",
    "bmm_scale",
    "attention_block",
)
NOTHING_TO_WRITE = "unsupported: no operator of this graph can become a kernel"

pytestmark = [pytest.mark.bench, pytest.mark.slow]


def rows_of(mode: str, folder: Path, plans: int, cases: tuple[str, ...] = ()) -> dict[str, list[dict[str, Any]]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRITON_CACHE_DIR": str(folder / "cache")}
    environment.pop("TRITON_INTERPRET", None)
    if mode == "run":
        environment["TRITON_INTERPRET"] = "1"
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.search.builtin_child",
        mode,
        str(folder),
        str(plans),
        *cases,
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = defaultdict(list)
    for line in done.stdout.splitlines():
        row = json.loads(line)
        found[row["name"]].append(row)
    return found


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    return rows_of("run", tmp_path_factory.mktemp("candidates"), 1)


@pytest.mark.parametrize("name", CASES)
def test_candidates_equal_the_reference_at_two_batch_sizes(results: dict[str, Any], name: str) -> None:
    problems = [row["problem"] for row in results[name]]
    assert len(problems) >= 2
    assert [text for text in problems if text and text != NOTHING_TO_WRITE] == []
    assert "" in problems


def test_candidates_compile_for_a_gpu(tmp_path: Path) -> None:
    rows = rows_of("compile", tmp_path, 1, COMPILED)
    assert set(rows) == set(COMPILED)
    assert [row["problem"] for found in rows.values() for row in found if row["problem"]] == []
