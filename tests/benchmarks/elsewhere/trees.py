"""Whether two searches are the same, by the rows that REST gives of their nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

# What a seed and the verdicts decide. Who judged, and when, is no part of it.
FIELDS = (
    "number", "parent", "kind", "state", "depth", "told_order", "source_hash", "verdict", "stage", "reason", "reused",
    "visits",
)  # fmt: skip
MODELLED = "MODELLED"


def differences(here: Sequence[Mapping[str, Any]], there: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence for each node that differs, in order. Modelled speedups are compared, as they have no noise;
    measured ones only by whether there is one."""
    found = []
    for one, other in zip_longest(here, there):
        if one is None or other is None:
            number = (one or other or {})["number"]
            found.append(f"node {number} is only {'elsewhere' if one is None else 'here'}")
            continue
        pairs = [(name, one[name], other[name]) for name in FIELDS]
        pairs.append(("speedup", _speedup(one), _speedup(other)))
        told = [f"{name} {a!r} here, {b!r} elsewhere" for name, a, b in pairs if a != b]
        if told:
            found.append(f"node {one['number']}: {'; '.join(told)}")
    return found


def _speedup(row: Mapping[str, Any]) -> object:
    found = row["speedup"]
    return found and (found["basis"], found["value"] if found["basis"] == MODELLED else None)


def equal_kernels(here: Sequence[Mapping[str, Any]], there: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """(kernels of both searches, how many of them have one verdict): what has to agree also where times are measured
    and the trees part for that."""
    verdicts = [{row["source_hash"]: row["verdict"] for row in rows if row["source_hash"]} for rows in (here, there)]
    both = verdicts[0].keys() & verdicts[1].keys()
    return len(both), sum(verdicts[0][one] == verdicts[1][one] for one in both)
