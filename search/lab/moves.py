"""How a simulated proposer writes the next candidate: the steps of a search as moves in a space of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from search.lab.spaces import Config, Space

MOST_MUTATIONS = 3


def small_step(space: Space, config: Config, rng: Random) -> Config:
    """One or two parameters take another value."""
    return _mutated(space, config, min(rng.randint(1, 2), len(config)), rng)


def large_step(space: Space, pool: Sequence[Config], rng: Random) -> Config:
    """Half of the time, and without a pool always, uniform over all values; else each parameter from some kernel of the
    pool, then up to three parameters take another value."""
    if not pool or rng.random() < 0.5:
        return tuple(rng.randrange(size) for size in space.sizes)
    mixed = tuple(rng.choice(pool)[place] for place in range(len(space.sizes)))
    return _mutated(space, mixed, min(rng.randint(0, MOST_MUTATIONS), len(mixed)), rng)


def _mutated(space: Space, config: Config, count: int, rng: Random) -> Config:
    changed = list(config)
    for place in rng.sample(range(len(config)), count):
        other = rng.randrange(space.sizes[place] - 1)
        changed[place] = other if other < config[place] else other + 1
    return tuple(changed)
