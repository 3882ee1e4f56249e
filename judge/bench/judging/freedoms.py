"""What may be done to the content of a family, and what to try for a reference: the most telling first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from judge.bench.judging import far_rows
from judge.bench.judging.far_rows import Far
from judge.bench.judging.probes import Probe
from judge.bench.judging.traits import Traits

SCALED, ADVERSARIAL = "scaled", "adversarial"


@dataclass(frozen=True)
class Freedom:
    """`ties`: the order of equal elements is defined, so there may be some. `indices`: integers may be drawn anew
    within their range. `far`: rows of the adversarial family may lie so far from zero. `small`: the scaled family may
    be small."""

    ties: bool = True
    indices: bool = True
    far: Far | None = None
    small: bool = False

    @property
    def telling(self) -> bool:
        """Whether it allows what not every reference has an answer to judge by for."""
        return self.small or self.far is not None

    @property
    def probe(self) -> Probe:
        """Under which it is known whether a reference has one."""
        return ("small" if self.small else f"{self.far}",)


ANYTHING = Freedom()


def to_try(family: str, traits: Traits, unfit: Collection[Probe], *, strict: bool) -> list[Freedom]:
    """For a reference with these `traits`, under `strict` numerics or others, without what is `unfit` for it."""
    if family == SCALED:
        tried = [Freedom(small=True)] if traits.normalises and strict else []
        return [*(one for one in tried if one.probe not in unfit), ANYTHING]
    if family != ADVERSARIAL:
        return [ANYTHING]
    tried = [Freedom(far=far) for far in far_rows.choices(traits)]
    tried = [one for one in tried if one.probe not in unfit]
    same = [replace(one, indices=False) for one in tried[:1]]
    return [*tried, ANYTHING, *same, Freedom(indices=False), Freedom(ties=False, indices=False)]


def one_sided(traits: Traits) -> Freedom | None:
    """Everything below zero: for a maximum over all there is, or over very few rows. None where no side differs."""
    if not traits.compares:
        return None
    far = replace(far_rows.choices(traits)[1], whole=True)
    return Freedom(indices=False, far=replace(far, level=0.0) if traits.takes_logarithms else far)
