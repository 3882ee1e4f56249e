"""The table view: the tree as rows, depth first, the path to the best node first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from judge.evaluations.measures import Measure
from judge.values import Basis
from search.algorithm.ranking import Standing
from search.live.columns import PRUNED, flag_labels
from search.records.node_styles import LABELS, STYLES

PAGE = 200
KIND_LABELS = (_("start"), _("large"), _("small"))


@dataclass(frozen=True)
class Row:
    """One node in the treegrid. `level`, `position` and `siblings` count from 1, as in ARIA."""

    number: int
    level: int
    position: int
    siblings: int
    children: int
    style: str
    label: str
    kind: str
    measure: Measure | None
    reason: str
    summary: str
    on_best_path: bool
    flags: tuple[str, ...] = ()  # what people did to it, as labels
    faded: bool = False  # pruned, here or above


def outline(
    columns: dict[str, list[Any]], standing: Standing, records: Iterable[int] = (), *, first: int = 0
) -> tuple[list[Row], int]:
    """At most `PAGE` rows from place `first` on, and how many rows there are in all.

    `records` are the numbers of all nodes that were the best when they were completed.
    """
    at = {number: index for index, number in enumerate(columns["n"])}
    children: dict[int, list[int]] = defaultdict(list)
    for number, parent in zip(columns["n"], columns["p"], strict=True):
        if parent >= 0:
            children[parent].append(number)
    closed = {number for number in at if columns["m"][at[number]] & PRUNED}
    spine, once = _path(columns, at, standing.leader), frozenset(records)
    rows: list[Row] = []
    place = 0
    faded: set[int] = set()
    stack = [(number, 1, 1, 1) for number in columns["n"] if columns["p"][at[number]] < 0]
    while stack:
        number, level, position, siblings = stack.pop()
        if number in closed or columns["p"][at[number]] in faded:
            faded.add(number)
        below = sorted(children[number], key=lambda child: (child not in spine, child))
        if first <= place < first + PAGE:
            index = at[number]
            style, label = _style(number, STYLES[columns["s"][index]], standing, once)
            rows.append(
                Row(
                    number=number,
                    level=level,
                    position=position,
                    siblings=siblings,
                    children=len(below),
                    style=style,
                    label=label,
                    kind=str(KIND_LABELS[columns["k"][index]]),
                    measure=_measure(columns, index),
                    reason=columns["r"][index],
                    summary=columns["d"][index],
                    on_best_path=number in spine,
                    flags=flag_labels(columns["m"][index]),
                    faded=number in faded,
                )
            )
        place += 1
        stack += [(child, level + 1, index + 1, len(below)) for index, child in reversed(list(enumerate(below)))]
    return rows, place


def _path(columns: dict[str, list[Any]], at: dict[int, int], number: int | None) -> set[int]:
    path: set[int] = set()
    while number is not None and number in at and number not in path:
        path.add(number)
        number = columns["p"][at[number]]
    return path


def _style(number: int, style: str, standing: Standing, records: frozenset[int]) -> tuple[str, str]:
    if number == standing.best:
        return "best", gettext("best so far")
    if number == standing.closest:
        return style, gettext("closest so far")
    return ("best", gettext("was the best")) if number in records else (style, str(LABELS[style]))


def _measure(columns: dict[str, list[Any]], index: int) -> Measure | None:
    value, basis = columns["x"][index], columns["bs"][index]
    if value is None or not basis:
        return None
    ends = columns["lo"][index], columns["hi"][index], columns["ns"][index]
    over_fastest, *fastest = columns["f"][index] or [None]
    over_shipped, *shipped = columns["h"][index] or [None]
    return Measure(
        value,
        *ends,
        Basis(basis),
        over_shipped=over_shipped,
        over_fastest=over_fastest,
        fastest=columns["w"][index],
        shipped_interval=shipped,
        fastest_interval=fastest,
    )
