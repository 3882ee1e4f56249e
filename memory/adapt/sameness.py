"""When two problems are one: the same operators in the same wiring, whatever the sizes. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

LEAST_SIZE = 8  # whole numbers from here on are taken for sizes; kernel widths, axes and counts of groups are smaller


def graph_signature(graph: Mapping[str, Any] | None) -> str:
    """Sixteen hexadecimal digits of an op graph (OpGraph.to_json), equal for equal wiring; "" without a graph."""
    nodes = (graph or {}).get("nodes") or ()
    if not any(str(node["op"]).startswith("aten.") for node in nodes):
        return ""
    places = {node["name"]: place for place, node in enumerate(nodes)}
    told = [[node["op"], _plain(node["args"], places), _plain(node["kwargs"], places)] for node in nodes]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _plain(value: Any, places: Mapping[str, int]) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"node"}:
            return {"node": places.get(value["node"], -1)}
        return {key: _plain(one, places) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, places) for one in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= LEAST_SIZE:
        return "size"
    return value
