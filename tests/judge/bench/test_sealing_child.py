"""Sealed cases derived in a child: the seed decides, and what a problem does on them is told to nobody."""

from __future__ import annotations

import pytest

from judge.values import ProblemSpec, SealedCase
from tests.judge.audit_kernels import audited
from tests.judge.bench_problems import PROBLEM, SAME

pytestmark = pytest.mark.bench
SEED = "5eed" * 8


def kinds(cases: tuple[SealedCase, ...]) -> set[str]:
    return {case.kind for case in cases}


def test_the_seed_decides_and_the_audit_asks_what_was_derived(cpu_bench):
    first = cpu_bench.seal(ProblemSpec(PROBLEM), seed=SEED)
    assert kinds(first) >= {"size", "stride"} and all(case.derived for case in first)
    assert cpu_bench.seal(ProblemSpec(PROBLEM), seed=SEED) == first
    outcome = audited(cpu_bench, SAME, sealed=first)
    assert next(stage.detail for stage in outcome.stages if stage.name == "audit.sealed") == f"{len(first)} right"


@pytest.mark.parametrize("body", ["os._exit(3)", "raise SystemExit"])
def test_a_problem_that_ends_on_other_sizes_has_fewer_cases_and_no_fault(cpu_bench, body):
    source = PROBLEM.replace("def forward(self, x):", f"def forward(self, x):\n        if x.shape[1] != 64: {body}")
    found = cpu_bench.seal(ProblemSpec("import os\n" + source), seed=SEED)
    assert "size" not in kinds(found)
