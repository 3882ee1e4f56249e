"""Candidates for the audit's tests: PROBLEM's LayerNorm and GELU with honest and dishonest use of Triton."""

from __future__ import annotations

from judge.values import Job, Limits, Outcome, Policy, ProblemSpec, SealedCase
from tests.judge.bench_problems import PROBLEM, TRITON, candidate

SCALE = """
import triton, triton.language as tl

@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)

@triton.jit
def far_away(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at + (1 << 20)))
"""

LAUNCH = "y = torch.empty_like(x)\nscale[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\n"
FAIL = "y = torch.empty_like(x)\nfar_away[(1,)](x, y, x.numel(), BLOCK=64)\n"


def with_kernels(forward: str) -> str:
    """A candidate whose text defines `scale` (works) and `far_away` (reads out of bounds)."""
    return candidate(forward, head=SCALE)


HALVES = with_kernels(
    "y = torch.empty_like(x)\nn = x.numel()\n"
    "scale[(triton.cdiv(n, 256),)](self.right(x), y, n, BLOCK=256)\nreturn y / 2"
)
LAUNCHED_IN_VAIN = with_kernels(LAUNCH + "return self.right(x)")
NEVER_LAUNCHED = with_kernels("return self.right(x)")
FELL_BACK = with_kernels(f"try:\n    {FAIL.strip().replace(chr(10), chr(10) + '    ')}\n    return y\n"
                         "except Exception:\n    return self.right(x)")  # fmt: skip
WITH_A_WAY_OUT = TRITON.replace("        norm_gelu[", "        try:\n          norm_gelu[").replace(
    "        return y\n",
    "        except RuntimeError:\n          return torch.nn.functional.gelu(self.norm(x))\n        return y\n",
)


def audited(bench, source: str, *, problem: str = PROBLEM, sealed=(), timing: bool = False, **policy) -> Outcome:
    """One evaluation without a bar, so that every pass is audited."""
    spec = ProblemSpec(problem, policy=Policy(**policy), sealed=tuple(sealed))
    return bench.evaluate(Job("test", spec, source, limits=Limits(wall_s=300, stage_s=120), timing=timing))


def sealed(derived: bool = False, **constants) -> SealedCase:
    return SealedCase("hidden", constants, derived=derived)


def findings(outcome: Outcome) -> dict[str, str]:
    """Message by code; what is said about layouts is another stage's."""
    return {found.code: found.message for found in outcome.findings if not found.code.startswith("layout.")}
