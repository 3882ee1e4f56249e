"""The tree as rows, depth first with the way to the best first: the twin of the canvas for readers without it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from judge.measures import Measure
from judge.values import Basis
from search.live.looks import LOOKS, WORDS

PAGE = 200
KIND_WORDS = ("start", "large", "small")


@dataclass(frozen=True)
class Row:
    """One node in the treegrid. `level`, `position` and `siblings` count from 1, as ARIA wants them."""

    number: int
    parent: int | None
    level: int
    position: int
    siblings: int
    children: int
    look: str
    word: str
    kind: str
    measure: Measure | None
    reason: str
    summary: str
    best: bool
    on_best_path: bool


def outline(columns: dict[str, list[Any]], best: int | None, *, first: int = 0) -> tuple[list[Row], int]:
    """At most `PAGE` rows from place `first` on, and how many rows there are in all."""
    at = {number: index for index, number in enumerate(columns["n"])}
    children: dict[int, list[int]] = defaultdict(list)
    for number, parent in zip(columns["n"], columns["p"], strict=True):
        if parent >= 0:
            children[parent].append(number)
    spine = _path(columns, at, best)
    rows: list[Row] = []
    place = 0
    stack = [(number, 1, 1, 1) for number in columns["n"] if columns["p"][at[number]] < 0]
    while stack:
        number, level, position, siblings = stack.pop()
        below = sorted(children[number], key=lambda child: (child not in spine, child))
        if first <= place < first + PAGE:
            rows.append(
                _row(columns, at[number], level, position, siblings, len(below), number == best, number in spine)
            )
        place += 1
        stack += [(child, level + 1, index + 1, len(below)) for index, child in reversed(list(enumerate(below)))]
    return rows, place


def _path(columns: dict[str, list[Any]], at: dict[int, int], number: int | None) -> set[int]:
    path: set[int] = set()
    while number is not None and number >= 0 and number in at and number not in path:
        path.add(number)
        number = columns["p"][at[number]]
    return path


def _row(
    columns: dict[str, list[Any]],
    index: int,
    level: int,
    position: int,
    siblings: int,
    children: int,
    best: bool,
    on_best_path: bool,
) -> Row:
    look = LOOKS[columns["s"][index]]
    value, basis = columns["x"][index], columns["bs"][index]
    measure = (
        Measure(value, columns["lo"][index], columns["hi"][index], columns["ns"][index], Basis(basis))
        if value is not None and basis
        else None
    )
    parent = columns["p"][index]
    return Row(
        number=columns["n"][index],
        parent=parent if parent >= 0 else None,
        level=level,
        position=position,
        siblings=siblings,
        children=children,
        look="best" if best else look,
        word="best so far" if best else WORDS[look],
        kind=KIND_WORDS[columns["k"][index]],
        measure=measure,
        reason=columns["r"][index],
        summary=columns["d"][index],
        best=best,
        on_best_path=on_best_path,
    )
