"""Small steps on kernels this proposer did not write: one launch constant in their text doubled or halved."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from judge.values.parsing import parse_module

# num_warps=4, num_stages=2, BLOCK_M=64, BLOCK = 1024, "BLOCK_N": 128, TILE_K: tl.constexpr = 32
CONSTANT = re.compile(
    r"""(?P<name>\b(?:num_warps|num_stages|(?:BLOCK|TILE|GROUP)\w*|B[MNK]))["']?"""
    r"""\s*(?::\s*tl\.constexpr\s*)?[=:]\s*(?P<value>\d+)\b(?!\s*[*/+-])"""
)
BOUNDS = {"num_warps": (1, 16), "num_stages": (1, 6)}


@dataclass(frozen=True)
class Patch:
    """The patched text and one line on what changed."""

    source: str
    summary: str


def patches(source: str, rng: random.Random) -> Iterator[Patch]:
    """Every one-constant change of `source` that still parses, in an order drawn from `rng`; none of broken text."""
    try:
        parse_module(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # no constant mends it, and trying each takes long
    options = [(match, value) for match in CONSTANT.finditer(source) for value in _values(match)]
    rng.shuffle(options)
    for match, value in options:
        text = source[: match.start("value")] + str(value) + source[match.end("value") :]
        try:
            parse_module(text)
        except SyntaxError:
            continue
        line = source.count("\n", 0, match.start()) + 1
        yield Patch(text, f"{match['name']} {match['value']} → {value} (line {line})")


def _values(match: re.Match[str]) -> list[int]:
    name, now = match["name"], int(match["value"])
    if name == "num_stages":
        near = [now - 1, now + 1]
    elif now > 0 and now & (now - 1) == 0:
        near = [now // 2, now * 2]
    else:
        return []
    low, high = BOUNDS.get(name, (16 if name[0] == "B" else 1, 16384))
    return [value for value in near if low <= value <= high]
