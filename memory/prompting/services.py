"""Writes which rule stands in which prompt, when a step is reserved."""

from __future__ import annotations

from collections.abc import Iterable

from memory.prompting.models import RuleUse
from memory.prompting.queries import Frozen


def uses_record(*, frozen: Frozen, seed: int, nodes: Iterable[tuple[int, int]]) -> None:
    """Deal the frozen rules to new nodes, given as (row id, number), in the transaction that reserves them."""
    RuleUse.objects.bulk_create(
        RuleUse(node_id=pk, rule_id=frozen.rule_of[version], version_id=version, arm=arm)
        for pk, number in nodes
        for version, arm in frozen.dealt(seed=seed, number=number)
    )
