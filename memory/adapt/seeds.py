"""What a seed problem gives to a new one: the operators it names and the rank of its input. Its text is never run."""

from __future__ import annotations

import ast
from dataclasses import dataclass

RANKS = (2, 3, 4)
_DRAWN = {"randn", "rand", "randint", "ones", "zeros", "empty"}


@dataclass(frozen=True)
class Seed:
    """A known problem as a composer sees it."""

    slug: str
    source: str


def names_called(source: str) -> list[str]:
    """Names of everything the text calls, without their rooms, in order and once. Empty for what does not parse."""
    found = [_name(node.func) for node in _calls(source)]
    return list(dict.fromkeys(name for name in found if name))


def rank_of(source: str, default: int = 2) -> int:
    """The rank of the first tensor that get_inputs draws, within RANKS."""
    for node in _calls(source):
        if _name(node.func) in _DRAWN:
            given = node.args[0].elts if node.args and isinstance(node.args[0], ast.Tuple | ast.List) else node.args
            return min(max(len(given), RANKS[0]), RANKS[-1])
    return default


def _calls(source: str) -> list[ast.Call]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
