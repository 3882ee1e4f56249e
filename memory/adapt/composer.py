"""Makes new problems of known ones: three seeds and three operators of the catalogue. Deterministic. Pure.

After the task synthesis of AdaExplore's Adapt stage (arXiv 2604.16625): mutate and recombine, without a model.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory.adapt.catalogue import Catalogue, DoesNotFit, Operator, Sizes
from memory.adapt.chain import Link, Poor, check_whole, linked, ordered
from memory.adapt.seeds import RANKS, Seed, names_called, rank_of
from memory.adapt.writing import module_text

SEEDS = 3
OPERATORS = 3
MOST_BORROWED = 2
LENGTHS = (3, 4, 4, 5, 5, 6)  # operations of one module
TRIES = 400
# How often each kind is drawn: what costs time on a GPU more often than what moves numbers about.
WEIGHTS = {"matmul": 4, "conv": 3, "norm": 4, "activation": 5, "pool": 2, "reduction": 4, "elementwise": 5, "layout": 1}
_SMALL = {2: ((16, 24, 32), (48, 64, 96)), 3: ((2, 4), (8, 12, 16), (32, 48)), 4: ((2,), (8, 12), (12, 16), (12, 16))}
_LARGE = {
    2: ((4096, 8192), (1024, 2048, 4096)),
    3: ((32, 64), (128, 256), (1024, 2048)),
    4: ((16, 32, 64), (64, 128), (56, 64), (56, 64)),
}


@dataclass(frozen=True)
class Drawn:
    """What a new problem is to be made of."""

    seeds: tuple[Seed, ...]
    operators: tuple[Operator, ...]
    rank: int


@dataclass(frozen=True)
class Composed:
    """A new problem. `recipe` says what it was made of, as JSON."""

    title: str
    source: str
    recipe: dict[str, Any]


class NothingComposed(ValueError):
    """No chain was found. The message says what to give."""


def rng_of(seed: int, place: int) -> random.Random:
    """The only source of chance of one task."""
    return random.Random(f"adapt:{seed}:{place}")


def drawn(*, seed: int, place: int, catalogue: Catalogue, seeds: Sequence[Seed]) -> Drawn:
    """Three seed problems, a rank, and three operators of different kinds. Raises NothingComposed.

    The rank is that of a seed's input in half of the tasks, else any for which there are operators of three kinds.
    """
    if len(seeds) < SEEDS:
        raise NothingComposed(f"Composing needs {SEEDS} problems to start from; there are {len(seeds)}.")
    rng = rng_of(seed, place)
    chosen = tuple(rng.sample(sorted(seeds, key=lambda one: one.slug), SEEDS))
    ranks = [rank for rank in RANKS if len({one.category for one in catalogue.at(rank)}) >= OPERATORS]
    if not ranks:
        raise NothingComposed("The catalogue has operators of too few kinds.")
    rank = rank_of(rng.choice(chosen).source)
    if rank not in ranks or rng.random() < 0.5:
        rank = rng.choice(ranks)
    return Drawn(chosen, tuple(_operators(catalogue.at(rank), rng)), rank)


def _operators(usable: Sequence[Operator], rng: random.Random) -> list[Operator]:
    kinds = {kind: [one for one in usable if one.category == kind] for kind in WEIGHTS}
    left = [kind for kind in WEIGHTS if kinds[kind]]
    found = []
    for _ in range(min(OPERATORS, len(left))):
        kind = rng.choices(left, [WEIGHTS[one] for one in left])[0]
        left.remove(kind)
        found.append(rng.choice(kinds[kind]))
    return found


def compose(*, seed: int, place: int, catalogue: Catalogue, seeds: Sequence[Seed]) -> Composed:
    """The problem number `place` of an adapt run. Raises NothingComposed."""
    given = drawn(seed=seed, place=place, catalogue=catalogue, seeds=seeds)
    rng = random.Random(f"adapt:{seed}:{place}:chain")
    named = {one.slug: catalogue.named(names_called(one.source)) for one in given.seeds}
    wanted = rng.choice(LENGTHS)
    for attempt in range(TRIES):
        length = max(OPERATORS, wanted - 3 * attempt // TRIES)  # rather a shorter one than none
        operators = _chosen(given, named, rng, length, catalogue, fresh=attempt > TRIES // 4)
        sizes = _sizes(given.rank, rng)
        try:
            check_whole(operators)
            links = linked(ordered(operators, rng), sizes, rng)
        except (Poor, DoesNotFit):
            continue
        return _composed(given, links, sizes)
    raise NothingComposed("No chain of these operators makes a problem.")


def _chosen(
    given: Drawn,
    named: dict[str, list[Operator]],
    rng: random.Random,
    length: int,
    catalogue: Catalogue,
    *,
    fresh: bool,
) -> list[Operator]:
    """The drawn operators, some borrowed from the seeds, and others; after many tries other ones are drawn."""
    own = _operators(catalogue.at(given.rank), rng) if fresh else list(given.operators)
    borrowed = [one for seed in given.seeds for one in named[seed.slug] if one.at(given.rank)]
    more = rng.sample(borrowed, len(borrowed))[:MOST_BORROWED] + _operators(catalogue.at(given.rank), rng)
    for one in more:
        if len(own) < length and one not in own:
            own.append(one)
    return own


def _sizes(rank: int, rng: random.Random) -> Sizes:
    pairs = zip(_SMALL[rank], _LARGE[rank], strict=True)
    return tuple((rng.choice(small), rng.choice(large)) for small, large in pairs)


def _composed(given: Drawn, links: tuple[Link, ...], sizes: Sizes) -> Composed:
    slugs = [one.slug for one in given.seeds]
    title, source = module_text(links, sizes, slugs)
    recipe = {
        "seeds": slugs,
        "operators": [one.name for one in given.operators],
        "chain": [link.operator.name for link in links],
    }
    return Composed(title, source, recipe)
