"""What a problem is made of, in the words of a rule's scope. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_ATEN = re.compile(r"aten\.(\w+)")


def operator_families(nodes: Iterable[Mapping[str, Any]], family: str = "") -> frozenset[str]:
    """ATen names of a traced graph ("aten.linear.default" is "linear"), and the problem's own family."""
    found = {hit[1].strip("_") for node in nodes if (hit := _ATEN.match(str(node.get("op", ""))))}
    return frozenset(found | ({family} if family else set()))


def triton_of(toolchain: str) -> str:
    """Triton's version out of "torch 2.13.0 triton 3.7.1 sm_90"; "" when it is not told."""
    found = re.search(r"\btriton (\d[\w.+]*)", toolchain)
    return found[1] if found else ""
