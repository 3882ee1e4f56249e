"""Which node to expand next: one small module for each policy behind one protocol (`selection.Policy`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from search.algorithm.policies.chain import chain
from search.algorithm.policies.greedy import greedy
from search.algorithm.policies.independent import independent
from search.algorithm.policies.map_elites import map_elites
from search.algorithm.policies.selection import Policy, Selection
from search.algorithm.policies.uct import uct

__all__ = ["POLICIES", "Policy", "Selection", "chain", "greedy", "independent", "map_elites", "uct"]

POLICIES: Mapping[str, Policy] = MappingProxyType(
    {"uct": uct, "greedy": greedy, "independent": independent, "chain": chain, "map_elites": map_elites}
)
