"""Without a GPU the first configuration that the target can run is the one interpreted, and the page says which."""

from __future__ import annotations

import pytest

from judge.values import Verdict
from tests.judge.bench_problems import TRITON, judge

pytestmark = pytest.mark.bench

TUNED = TRITON.replace(
    "@triton.jit", "@triton.autotune([triton.Config({}, num_warps=w) for w in WARPS], key=['n'])\n@triton.jit"
)
TELLS = TUNED.replace("        return y", "        print('warps', norm_gelu.best_config.num_warps)\n        return y")


def tuned(*warps: int) -> str:
    return TELLS.replace("WARPS", str(warps))


def test_a_first_configuration_that_fits_is_kept(interpreter_bench):
    outcome = judge(interpreter_bench, tuned(2, 4))
    assert outcome.verdict is Verdict.PASS
    assert outcome.kernels[0]["config"].startswith("num_warps: 2") and outcome.kernels[0]["configs"] == 2
    assert set(outcome.log.split("\n")) == {"warps 2", ""}


def test_one_that_does_not_fit_is_passed_over_by_compiler_and_interpreter(interpreter_bench):
    outcome = judge(interpreter_bench, tuned(64, 8), timing=True)
    assert outcome.verdict is Verdict.PASS and outcome.speedup is not None
    assert outcome.kernels[0]["config"].startswith("num_warps: 8")
    lines = outcome.log.strip().split("\n")
    assert lines[0] == "warps 64" and set(lines[1:]) == {"warps 8"}, "only the discarded first call took the other"


def test_a_list_of_which_nothing_fits_fails_to_compile(interpreter_bench):
    outcome = judge(interpreter_bench, tuned(64, 128))
    assert (outcome.verdict, outcome.reason) == (Verdict.COMPILE_FAILED, "compile.resources")
