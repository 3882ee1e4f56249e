"""Whether the reference's errors on some content tell anything about a candidate's digits."""

from __future__ import annotations

import math

import torch

from judge.bench.judging.expected import Expected, Target

HIDES, AMPLIFIES = 1e-5, 0.1  # a probe on which the next coarser format errs less, or more, tells no digits
OPPOSES = 10.0  # the same where all but a thousandth cancels
VANISHING = 1e-20  # an output that is smaller everywhere consists of tails of exponentials, which nobody needs
DECIDED = 1e-3  # an error that is no step
COMPENSATED = 2.0  # times the error of one rounding at the end; a plain sum that subtracts as often loses more


def rounded_once(target: Target) -> bool:
    """Whether the reference is as near to the oracle as its type allows: then it loses nothing on the way."""
    if target.integer:
        return False
    return 0 < target.error.rms <= COMPENSATED * target.best()


def vanishes(expected: Expected) -> bool:
    """Whether a floating output is nothing but tails of exponentials."""
    floating = [target.same for target in expected.outputs if not target.integer and target.same.numel()]
    return any(float(torch.linalg.vector_norm(same, math.inf)) < VANISHING for same in floating)


def decided(expected: Expected) -> bool:
    """Whether no element of the answer hangs on a rounding: fp64 decides each as the reference does."""
    return all(
        target.exact is None if target.integer else target.error.largest <= DECIDED for target in expected.outputs
    )


def tells_digits(expected: Expected, most: float) -> bool:
    """Whether errors of fp32 stay in proportion: the next coarser format shows, and errs by no more than `most`."""
    floating = [target for target in expected.outputs if not (target.integer or target.error.vanish)]
    return bool(floating) and all(
        target.same.dtype == torch.float32 and target.coarse is not None and HIDES <= target.coarse.rms <= most
        for target in floating
    )
