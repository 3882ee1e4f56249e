"""Random outputs of timed calls: each must be a draw for its own content, and a new one.

Two draws of the reference for the same content say how far apart two draws are; a candidate's draw must be as far from
both, and as well aligned. An old answer belongs to other content, and is farther. Zeros in the same places call after
call, or equal answers to equal content, are one draw used twice.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import combinations

import torch

CALIBRATING, CALIBRATED = 8, 1 << 22  # draws of the reference for one content, and elements of them that are kept
STEADY = 1.5  # largest over smallest squared distance between them, up to which a single call can be told
ROUNDING = 1e-4  # of a draw's length: nearer than that is no difference between draws
ENOUGH = 16  # calls, where only many together tell
DEVIATIONS = 3.8  # standard deviations of a fair coin
SAMPLED, KEPT = 1 << 14, 32  # elements that are kept of a call, and calls
ALIKE = 0.05  # more zeros in the same places, or less alignment, than the reference's draws ever have
NO_DRAW = "it is no draw for the content of that call"
NOT_NEW = "it repeats the draw of an earlier call"


class FreshDraws:
    """One output of one subject over all timed calls. `drawn`: the reference's draws for one content, or their head."""

    def __init__(self, drawn: list[torch.Tensor]) -> None:
        apart = [squared(one, other) for one, other in combinations(drawn, 2)]
        least, most = min(apart), max(apart)
        self.differs = least > 0  # no two draws of the reference are equal
        self.steady = self.differs and most < STEADY * least
        aligned = [alignment(one, other) for one, other in combinations(drawn, 2)]
        self._aligned = min(aligned) - 3 * (max(aligned) - min(aligned)) - ALIKE
        scatter = most / least if self.steady else 1.0
        self.room = min(1.03 + 4 * (scatter - 1), 1.3 * scatter)
        self.calls = self.farther = self.nearer = 0
        flat = drawn[0].numel()
        source = torch.Generator().manual_seed(flat)
        self._at = torch.randint(flat, (SAMPLED,), generator=source) if flat > SAMPLED else torch.arange(flat)
        samples = [self._sample(draw) for draw in drawn]
        self._nearest = min(squared(one, other) for one, other in combinations(samples, 2))
        self._answers: deque[torch.Tensor] = deque(maxlen=KEPT)  # samples, to the one content that is asked again
        self._zeros: deque[tuple[torch.Tensor, torch.Tensor]] = deque(maxlen=KEPT)  # in its and the reference's draws

    def _sample(self, value: torch.Tensor) -> torch.Tensor:
        return value.detach().reshape(-1)[self._at.to(value.device)].double().cpu()

    def fault(self, value: torch.Tensor, one: torch.Tensor, other: torch.Tensor, *, again: bool = False) -> str:
        """What is wrong with `value`, given two of the reference's draws for its content; empty when nothing is.

        `again`: the content is the one that the reference's draws were first taken for.
        """
        between = squared(one, other)
        size = float(torch.linalg.vector_norm(one.float()))
        found = max(math.sqrt((squared(value, one) + squared(value, other)) / 2) - ROUNDING * size, 0.0) ** 2
        self.calls += 1
        self.farther += found > between
        self.nearer += found < between
        telling = math.sqrt(between) > 10 * ROUNDING * size
        if self.steady and (found > self.room * between or (telling and found * self.room < between)):
            return NO_DRAW
        if alignment(value, one) < self._aligned:
            return NO_DRAW
        repeats = self._repeats_zeros(value, one) or (again and self._repeats_answer(value))
        return NOT_NEW if repeats else ""

    def _repeats_zeros(self, value: torch.Tensor, one: torch.Tensor) -> bool:
        mine, theirs = self._sample(value) == 0, self._sample(one) == 0
        usual = max((agreement(theirs, earlier) for _, earlier in self._zeros), default=1.0)
        found = max((agreement(mine, earlier) for earlier, _ in self._zeros), default=0.0)
        self._zeros.append((mine, theirs))
        return found > usual + ALIKE + 3 / math.sqrt(len(mine))

    def _repeats_answer(self, value: torch.Tensor) -> bool:
        sample = self._sample(value)
        nearest = min((squared(sample, earlier) for earlier in self._answers), default=math.inf)
        self._answers.append(sample)
        return nearest < self._nearest / 2 if self.steady else self.differs and nearest == 0

    @property
    def told(self) -> bool:
        """Whether the calls so far were enough to tell an old answer."""
        return self.steady or self.calls >= ENOUGH

    def verdict(self) -> str:
        """What all calls together say, where a single one cannot: a fair draw is as often nearer as farther."""
        most = self.calls / 2 + DEVIATIONS * math.sqrt(self.calls) / 2
        return NO_DRAW if not self.steady and max(self.farther, self.nearer) > most else ""


def squared(one: torch.Tensor, other: torch.Tensor) -> float:
    """Squared distance of two tensors of one shape."""
    return float(torch.linalg.vector_norm(one.float() - other.float())) ** 2


def alignment(one: torch.Tensor, other: torch.Tensor) -> float:
    """Size of the cosine between two tensors of one shape; 1 where one of them vanishes."""
    left, right = one.reshape(-1).double(), other.reshape(-1).double()
    length = float(torch.linalg.vector_norm(left) * torch.linalg.vector_norm(right))
    return abs(float(left @ right)) / length if length > 0 else 1.0


def agreement(one: torch.Tensor, other: torch.Tensor) -> float:
    """Share of places where two masks are equal."""
    return float((one == other).double().mean())
