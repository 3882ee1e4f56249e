"""Published outcomes beside ours: a table per problem, and what differs, with the evidence that the verdicts hold."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, TypeVar

from judge.values import Verdict
from tests.benchmarks.recorded.entries import RIGHT, Published
from tests.benchmarks.recorded.rows import Relation, Row

Item = TypeVar("Item")
EXAMPLES = 5
PUBLISHED_TOLERANCE = 5e-2  # absolute and relative, of the checks behind the recordings
_PLACE = re.compile(r"\b\w+\.py:\d+: ")
_NUMBER = re.compile(r"\b(?:0x[0-9a-f]+|\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Line:
    """One published outcome of one problem, and what it came to here: words -> kernels."""

    problem: str
    published: Published
    n: int
    ours: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Group:
    """Kernels published alike that ended alike here. `evidence`: sentences made from their rows."""

    relation: Relation
    published: Published
    ours: str
    n: int
    problems: tuple[tuple[str, int], ...]
    examples: tuple[str, ...]
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """`relations` counts kernels; `faster` are passes published as faster, and those that our interval calls so."""

    kernels: int
    relations: dict[str, int]
    lines: tuple[Line, ...]
    groups: tuple[Group, ...]
    passes_published_faster: int
    faster_here_too: int
    seconds_p50: float
    seconds_max: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def report(rows: Iterable[Row]) -> Report:
    """About the newest row of each key. Raises ValueError without any."""
    newest = list({row.key: row for row in rows}.values())
    if not newest:
        raise ValueError("nothing was judged: give a larger budget, or files with kernels")
    passes = [row for row in newest if row.published is Published.FASTER and row.verdict is Verdict.PASS]
    walls = [row.wall_s for row in newest]
    return Report(
        kernels=len(newest),
        relations={str(one): sum(row.relation is one for row in newest) for one in Relation},
        lines=tuple(_lines(newest)),
        groups=tuple(_groups(newest)),
        passes_published_faster=len(passes),
        faster_here_too=sum(1 for row in passes if row.figures and row.figures["low"] > 1),
        seconds_p50=median(walls),
        seconds_max=max(walls),
    )


def _lines(rows: Sequence[Row]) -> Iterable[Line]:
    found = _by(rows, lambda row: (row.problem, row.published))
    order = list(Published)
    for problem, published in sorted(found, key=lambda pair: (pair[0], order.index(pair[1]))):
        own = found[problem, published]
        yield Line(problem, published, len(own), _counted(row.words for row in own))


def _groups(rows: Sequence[Row]) -> Iterable[Group]:
    """Everything but agreement, what differs first, the larger groups first."""
    rest = [row for row in rows if row.relation is not Relation.AGREES]
    found = _by(rest, lambda row: (row.relation, row.published, row.words))
    order = [Relation.LOST, Relation.DIFFERS, Relation.UNDECIDED]
    for key in sorted(found, key=lambda key: (order.index(key[0]), -len(found[key]), key[1], key[2])):
        own, (kind, published, ours) = found[key], key
        yield Group(
            relation=kind,
            published=published,
            ours=ours,
            n=len(own),
            problems=_counted(row.problem for row in own),
            examples=tuple(row.id for row in own[:EXAMPLES]),
            evidence=tuple(_evidence(own)),
        )


def _evidence(rows: Sequence[Row]) -> Iterable[str]:
    """What the verdicts of a group say, from their messages, errors and findings; nothing that is not in them."""
    yield from _causes("here", [row.message for row in rows])
    yield from _causes("published", [row.published_error for row in rows if row.published_error])
    failed = [row.round for row in rows if row.round]
    if failed:
        yield from _errors(failed)
    launched = sum(row.launches > 0 for row in rows)
    yield f"stages: {_listed(row.stage for row in rows)}; {launched} of {len(rows)} launch kernels of their own"
    noticed = dict(finding for row in rows for finding in row.findings)
    for code, count in _counted(code for row in rows for code in dict(row.findings)):
        yield f"{count} x {code}, such as: {_first_line(noticed[code])}"
    speeds = sorted(row.published_speedup for row in rows if row.published_speedup)
    if speeds and rows[0].published in RIGHT:
        yield f"published speedups: {speeds[0]:.2f} to {speeds[-1]:.2f}, median {median(speeds):.2f}"


def _errors(failed: Sequence[dict[str, Any]]) -> Iterable[str]:
    """The first failing round of each: which inputs, how far off, how far the published check could see."""
    yield f"first failing inputs: {_listed(one['family'] for one in failed)}"
    errors = sorted(one["error"] for one in failed if one["error"] is not None)
    if errors:
        allowed = median(one["allowed"] for one in failed if one["allowed"] is not None)
        below = sum(error < PUBLISHED_TOLERANCE for error in errors)
        yield (
            f"RMS error over the output's spread: {errors[0]:.1e} to {errors[-1]:.1e}, median {median(errors):.1e}, "
            f"median allowed {allowed:.1e}; {below} of {len(errors)} are below {PUBLISHED_TOLERANCE:g}, the tolerance "
            "they were published with"
        )


def _causes(whose: str, messages: Sequence[str]) -> Iterable[str]:
    """The most frequent causes; one that stands alone keeps its figures."""
    alike = _by(messages, lambda message: _NUMBER.sub("N", _first_line(message)))
    for words, count in _counted(_NUMBER.sub("N", _first_line(message)) for message in messages)[:EXAMPLES]:
        yield f"{count} x {whose}: {_first_line(alike[words][0]) if count == 1 else words}"
    if len(alike) > EXAMPLES:
        yield f"{len(alike) - EXAMPLES} more causes {whose}"


def _first_line(message: str) -> str:
    """Without places, and without the caret that points at them."""
    return _PLACE.sub("", message.strip().split("\n", 1)[0].rstrip(" ^"))[:240]


def table(found: Report) -> list[str]:
    """For a terminal."""
    rows = [("problem", "published", "n", "judged here as")]
    for line in found.lines:
        words = ", ".join(f"{count} {ours}" for ours, count in line.ours)
        rows.append((line.problem, str(line.published), str(line.n), words))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return ["  ".join((*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[3])) for row in rows]


def explanations(found: Report) -> list[str]:
    """What does not agree, group by group."""
    lines = []
    for group in found.groups:
        where = ", ".join(f"{problem} {count}" for problem, count in group.problems)
        lines += [
            "",
            f"{group.relation}: {group.n} published as {group.published!s}, here {group.ours} ({where}), "
            f"such as {', '.join(group.examples)}",
            *(f"  {words}" for words in group.evidence),
        ]
    return lines


def conclusion(found: Report) -> str:
    parts = ", ".join(f"{count} {words}" for words, count in found.relations.items())
    speed = ""
    if found.passes_published_faster:
        speed = (
            f"; of {found.passes_published_faster} passes published as faster than eager, "
            f"{found.faster_here_too} are faster on this device"
        )
    return (
        f"{found.kernels} kernels: {parts}{speed}; {found.seconds_p50:.1f} s each at the median, "
        f"{found.seconds_max:.1f} s at most"
    )


def _by(rows: Iterable[Item], key: Callable[[Item], Any]) -> dict[Any, list[Item]]:
    found: dict[Any, list[Item]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def _counted(words: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(words).items(), key=lambda pair: (-pair[1], pair[0])))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"{word} {count}" for word, count in _counted(words))
