"""The audit on a real GPU: effect of launches, traced shares, torch.compile inside. Run with -s to read the times.

python -m pytest tests/judge/bench/test_audit_cuda.py tests/judge/bench/test_audit_share.py -m cuda -s
"""

from __future__ import annotations

import pytest

from judge.values import Audit, Job, Library, Limits, Outcome, Policy, ProblemSpec, Verdict
from tests.judge.audit_kernels import HALVES, LAUNCHED_IN_VAIN, NEVER_LAUNCHED, WITH_A_WAY_OUT, sealed, with_kernels
from tests.judge.bench.test_cuda_device import BIG, gpu_bench, say
from tests.judge.bench_problems import SAME, TRITON, candidate

__all__ = ["gpu_bench"]

pytestmark = [pytest.mark.cuda, pytest.mark.bench]

LIMITS = Limits(wall_s=150, stage_s=90)
BY_HANDLE = with_kernels(
    "y = torch.empty_like(x)\nn = x.numel()\n"
    "if self.kernel is None: self.kernel = scale.warmup(x, y, n, BLOCK=256, grid=(1,))\n"
    "self.kernel[(triton.cdiv(n, 256), 1, 1)](self.right(x), y, n, 256)\nreturn {}"
).replace("LayerNorm(size)\n", "LayerNorm(size)\n        self.kernel = None\n", 1)
TOO_LARGE = candidate(
    "y = torch.empty_like(x)\ntry:\n    huge[(1,)](x, y, BLOCK=1 << 21)\n    return y\n"
    "except Exception:\n    return self.right(x)",
    head="import triton, triton.language as tl\n@triton.jit\ndef huge(x, y, BLOCK: tl.constexpr):\n"
    "    at = tl.arange(0, BLOCK)\n    tl.store(y + at, tl.load(x + at))",
)
COMPILED = candidate(
    "if self.made is None: self.made = torch.compile(self.right)\nreturn self.made(x)", init="self.made = None"
)


def audited(bench, source: str, *cases, timing: bool = False, **policy) -> Outcome:
    spec = ProblemSpec(BIG, policy=Policy(**policy), sealed=tuple(cases))
    outcome = bench.evaluate(Job("gpu", spec, source, limits=LIMITS, timing=timing))
    say(f"\n{outcome.verdict} {outcome.reason} {outcome.message} in {outcome.wall_ms:.0f} ms")
    for stage in outcome.stages:
        say(f"  {stage.name} {stage.state} {stage.wall_ms:.0f} ms {stage.detail}")
    for finding in outcome.findings:
        say(f"  {finding.code}: {finding.message}")
    return outcome


def codes(outcome: Outcome) -> set[str]:
    return {finding.code for finding in outcome.findings if not finding.code.startswith("time.")}


def test_an_honest_kernel_passes_and_its_share_is_traced(gpu_bench):
    audited(gpu_bench, TRITON, timing=True)  # first use of the driver, the profiler and the compilers
    outcome = audited(gpu_bench, TRITON, sealed(SIZE=1000), sealed(SIZE=333, derived=True), timing=True)
    assert (outcome.verdict, outcome.audit) == (Verdict.PASS, Audit.PASSED)
    assert codes(outcome) <= {"profile.kernels", "run.not_bitwise", "layout.unsafe"}
    kernels = next(finding for finding in outcome.findings if finding.code == "profile.kernels").data["kernels"]
    assert [(name, own) for name, _, own in kernels] == [("norm_gelu", True)]
    stages = {stage.name: stage for stage in outcome.stages}
    assert stages["audit.roofline"].state == "ok"
    assert stages["audit.sealed"].detail == "2 right"
    assert stages["audit"].state == "ok"


def test_launches_that_the_answer_does_not_need_are_dishonest(gpu_bench):
    outcome = audited(gpu_bench, LAUNCHED_IN_VAIN)
    assert (outcome.verdict, outcome.reason) == (Verdict.DISHONEST, "audit.noop_survives")


@pytest.mark.parametrize(("result", "reason"), [("y / 2", ""), ("self.right(x)", "audit.noop_survives")])
def test_a_kernel_launched_by_its_handle_is_seen_too(gpu_bench, result, reason):
    assert audited(gpu_bench, BY_HANDLE.format(result)).reason == reason


def test_a_kernel_that_never_compiles_does_not_pass_by_its_fallback(gpu_bench):
    outcome = audited(gpu_bench, TOO_LARGE)
    assert outcome.reason in {"audit.fallback", "compile.error", "compile.resources"}


def test_a_fallback_that_is_not_taken_is_a_label(gpu_bench):
    assert "library.fallback" in codes(audited(gpu_bench, WITH_A_WAY_OUT))


def test_a_fig_leaf_shows_its_traced_share(gpu_bench):
    outcome = audited(gpu_bench, HALVES)
    assert outcome.verdict is Verdict.PASS
    share = next(finding for finding in outcome.findings if finding.code == "library.share")
    assert 0 < share.data["share"] < 0.3
    assert share.data["basis"] == "traced on the GPU"


def test_torch_alone_is_labelled_or_refused(gpu_bench):
    assert {"library.share", "kernel.decoy"} <= codes(audited(gpu_bench, NEVER_LAUNCHED))
    assert audited(gpu_bench, SAME, library=Library.REFUSE).reason == "audit.foreign_kernels"


def test_torch_compile_inside_is_labelled_by_its_kernels(gpu_bench):
    outcome = audited(gpu_bench, COMPILED)
    compiler = next(finding for finding in outcome.findings if finding.code == "library.compiler")
    assert any(name.startswith("triton_") for name in compiler.data["kernels"])
