"""Stochastic outputs (dropout): compared as distributions where another generator draws other numbers."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import torch

from judge.bench.judging.asking import Asker, Question
from judge.bench.judging.comparison import STAGE, Fault, check_structure
from judge.bench.judging.expected import Expected
from judge.bench.judging.precision import Allowed

DRAWS = 64
SAMPLED = 1 << 16  # elements of an output that are kept of each draw
SIGMAS = 5.0  # two means differ when they are this many standard errors apart
SLACK = 1e-3  # and by more than this share of their size: a kernel may round otherwise
SHUFFLES = 200
BEYOND = 2.0  # a statistic is out of place when it exceeds every shuffled one by this factor
TWINS, FEW_TWINS = 2.0, 32  # times the reference's elements that always change together, and as many more
APART = 1e-2  # of standard deviations: elements that change together differ by less
SPREAD_RATIO = 4.0  # of a variance over 64 draws; 1e-7 by chance


@dataclass(frozen=True)
class Draws:
    """One output over DRAWS calls: sampled elements as rows (fp64), and the share of exact zeros in each call."""

    rows: torch.Tensor
    zeros: torch.Tensor

    @classmethod
    def of(cls, samples: list[torch.Tensor]) -> Draws:
        """From what `sampled` made of each call's output."""
        rows = torch.stack(samples)
        return cls(rows[:, 1:], rows[:, 0])

    @staticmethod
    def sampled(output: torch.Tensor, seed: int) -> torch.Tensor:
        """The share of zeros, then at most SAMPLED elements, the same ones for the same seed; fp64 on the CPU."""
        flat = output.detach().reshape(-1)
        if flat.numel() > SAMPLED:
            source = torch.Generator().manual_seed(seed)
            flat = flat[torch.randint(flat.numel(), (SAMPLED,), generator=source).unique().to(flat.device)]
        zeros = (output == 0).double().mean().reshape(1)
        return torch.cat([zeros, flat.double()]).cpu()


def difference(reference: Draws, candidate: Draws, source: torch.Generator) -> str:
    """What tells the two apart, in words; empty when nothing does. `source` shuffles."""
    checks: tuple[Callable[[], str], ...] = (
        lambda: _finite(candidate),
        lambda: _two_means("share of exact zeros", reference.zeros, candidate.zeros),
        lambda: _wider("the share of exact zeros", reference.zeros, candidate.zeros),
        lambda: _together(reference.rows, candidate.rows),
        lambda: _levels(reference.rows, candidate.rows),
        lambda: _two_means("variance", _variances(reference), _variances(candidate)),
        lambda: _elementwise(reference.rows, candidate.rows, source),
    )
    return next((text for text in (check() for check in checks) if text), "")


def _finite(candidate: Draws) -> str:
    return "" if bool(candidate.rows.isfinite().all()) else "some draws hold NaN or infinities"


def _levels(reference: torch.Tensor, candidate: torch.Tensor) -> str:
    """Each call's size along the reference's mean. The mean is taken over calls that are not looked at again."""
    half = DRAWS // 2
    mean = reference[:half].mean(0)
    size = float(mean.square().sum())
    if size == 0:
        return ""
    return _two_means("mean", reference[half:] @ mean / size, candidate @ mean / size)


def _variances(draws: Draws) -> torch.Tensor:
    return (draws.rows - draws.rows.mean(0)).square().mean(1) * DRAWS / (DRAWS - 1)


def _two_means(name: str, one: torch.Tensor, other: torch.Tensor) -> str:
    error = math.sqrt(float(one.var()) / len(one) + float(other.var()) / len(other))
    left, right = float(one.mean()), float(other.mean())
    if abs(left - right) <= SIGMAS * error + SLACK * max(abs(left), abs(right)):
        return ""
    return f"{name}: {right:.4g} over {len(other)} draws, the reference {left:.4g} (standard error {error:.2g})"


def _wider(name: str, one: torch.Tensor, other: torch.Tensor) -> str:
    """Masks drawn in blocks keep the mean and spread out more from call to call."""
    left, right = float(one.var()), float(other.var())
    if right <= SPREAD_RATIO * left + 1e-12:
        return ""
    return f"{name} varies {math.sqrt(right / max(left, 1e-30)):.1f} times as much from call to call"


def _together(reference: torch.Tensor, candidate: torch.Tensor) -> str:
    """One draw that serves several elements: where two halves are alike, shares and means vary hardly more."""
    ours, theirs = _twins(reference), _twins(candidate)
    if theirs <= TWINS * ours + FEW_TWINS:
        return ""
    return f"{theirs} of {candidate.shape[1]} elements change together with another, of the reference's {ours}"


def _twins(rows: torch.Tensor) -> int:
    """Elements (columns) that change over the draws exactly as another one does, but for scale and sign.

    By a projection that puts equal ones side by side.
    """
    spread = rows.std(0)
    moving = spread > 1e-9 * rows.abs().amax(0).clamp_min(1e-300)
    scaled = (rows[:, moving] - rows[:, moving].mean(0)) / spread[moving]
    if scaled.shape[1] < 2:
        return 0
    direction = torch.randn(len(scaled), dtype=scaled.dtype, generator=torch.Generator().manual_seed(1))
    place = direction @ scaled
    scaled = (scaled * place.sign())[:, place.abs().argsort()]
    alike = (scaled[:, 1:] - scaled[:, :-1]).abs().amax(0) < APART
    return int((torch.nn.functional.pad(alike, (1, 0)) | torch.nn.functional.pad(alike, (0, 1))).sum())


def _elementwise(one: torch.Tensor, other: torch.Tensor, source: torch.Generator) -> str:
    """Whether the means of single elements differ: a permutation test, so that correlated elements do no harm."""
    pooled = torch.cat([one, other])
    spread = pooled.std(0)
    moving = spread > 1e-9 * pooled.abs().amax(0).clamp_min(1e-300)
    still = ~moving
    if bool(still.any()):
        apart = (one[0, still] - other[0, still]).abs()
        if bool((apart > SLACK * one[0, still].abs() + 1e-30).any()):
            return "elements that never change hold other values"
    if not bool(moving.any()):
        return ""
    scaled = (pooled[:, moving] - pooled[:, moving].mean(0)) / spread[moving]
    gram = scaled @ scaled.T / scaled.shape[1]
    sign = torch.cat([torch.ones(DRAWS, dtype=torch.float64), -torch.ones(DRAWS, dtype=torch.float64)])
    found = float(sign @ gram @ sign)
    shuffled = torch.stack([sign[torch.randperm(2 * DRAWS, generator=source)] for _ in range(SHUFFLES)])
    chance = float(((shuffled @ gram) * shuffled).sum(1).max())
    return "" if found <= BEYOND * chance else "single elements have other means than the reference's"


class ByChance(Allowed):
    """Stands for an allowed error where a candidate draws other numbers: one call has the right zeros, mean, spread."""

    def __init__(self) -> None:
        super().__init__(math.inf, math.inf)

    def accepts(self, value: torch.Tensor, exact: torch.Tensor, gain: float = 1.0) -> bool:
        """Whether `value` looks like a draw of what `exact` is a draw of. Coarse: single elements say nothing."""
        if value.shape != exact.shape or not bool(value.isfinite().all()):
            return False
        value, exact = value.double(), exact.double()
        count = max(1, value.numel())
        chance = gain * 3 / math.sqrt(count)
        zeros = abs(float((value == 0).double().mean()) - float((exact == 0).double().mean()))
        width = float(exact.std(correction=0)) or float(exact.abs().max()) or 1.0
        apart = abs(float(value.mean()) - float(exact.mean()))
        spread = float(value.std(correction=0)) / width
        return zeros <= 0.02 + chance and apart <= (0.02 + 2 * chance) * width and abs(spread - 1) <= 0.05 + 4 * chance


COUNTED_FAMILY = "adversarial"  # beside the first round; in the others one call is looked at roughly


def eligible(expected: Expected, number: int) -> bool:
    """Whether output `number` may be met in distribution: it is drawn, and its numbers have a mean.

    No gradient may: it belongs to the very draws of its forward.
    """
    floating = bool(expected.outputs[number].same.is_floating_point())
    return number in expected.random and floating and not expected.is_gradient(number)


def check(rounds: Asker, question: Question, number: int, value: torch.Tensor) -> str:
    """Compare output `number` as a distribution; what was done, in words. Raises Ended("value.mismatch")."""
    first = not rounds.by_chance
    rounds.by_chance = True
    if not first and question.family != COUNTED_FAMILY:
        if ByChance().accepts(value, question.expected.outputs[number].same):
            return "random: share of zeros, mean and spread of one call"
        text = "one call has another share of zeros, mean or spread than the reference's"
    else:
        text = _distributions(rounds, question, number)
        if not text:
            return f"random: compared over {DRAWS} calls"
    raise rounds.failed(question, number, Fault("value.mismatch", f"the output is random, as the reference's; {text}"))


def _distributions(rounds: Asker, question: Question, number: int) -> str:
    seed = secrets.randbits(31)
    theirs: list[torch.Tensor] = []
    ours: list[torch.Tensor] = []
    for _ in range(DRAWS):
        draw = secrets.randbits(31)
        again = Question(question.family, question.inputs, question.state, draw, question.expected)
        reply, slots = rounds.ask(again)
        check_structure(reply, question.expected, STAGE)
        theirs.append(Draws.sampled(rounds.contact.take(slots.outs)[number], seed))
        ours.append(Draws.sampled(rounds.reference.outputs(question.inputs, draw, question.state)[number], seed))
    source = torch.Generator().manual_seed(seed)
    return difference(Draws.of(ours), Draws.of(theirs), source)
