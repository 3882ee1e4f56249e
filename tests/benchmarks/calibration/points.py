"""What is counted and measured: kept candidates at sizes from launch-bound to as large as the interpreter can take."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from judge.selftest.entries import Corpus
from judge.selftest.entries import entries as selftest_entries
from judge.sources.checks import case_for, declared_cases
from judge.values import DEFAULT_POLICY, Policy, ProblemSpec
from tests.benchmarks.calibration.sizes import GIVEN, HUGE, LARGE, SIZES
from tests.benchmarks.comparison import corpus

CASE = "calibration"
ORDER = (LARGE, GIVEN, HUGE)  # a run that is cut short has seen these first; any other size comes after
# Honest for another reason than their speed: random results, tricks at import, or only on a GPU.
LEFT_OUT = frozenset(
    {"e14_slow_first_call", "h_dropout_library_mask", "h_dropout_philox", "h_import_error_names_a_lock",
     "h_inline_assembly", "h_long_source", "h_prints_to_stdout"}
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One candidate at one size. `problem` is the name that a cross-validation leaves out as a whole."""

    problem: str
    candidate: str  # the name of its file
    size: str
    spec: ProblemSpec = field(repr=False)
    source: str = field(repr=False)  # of the candidate

    @property
    def id(self) -> str:
        return f"{self.candidate}@{self.size}"

    @property
    def digest(self) -> str:
        """Tells this work from the same name with other text or another size."""
        text = "\0".join((self.spec.hash, self.spec.case or "", self.source))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def points() -> tuple[Point, ...]:
    """All, the first of every problem before any second: a run cut short has still seen every problem."""
    rows: dict[str, list[Point]] = {}
    for point in _all():
        rows.setdefault(point.problem, []).append(point)
    for found in rows.values():
        found.sort(key=lambda point: ORDER.index(point.size) if point.size in ORDER else len(ORDER))
    return tuple(point for row in zip_longest(*rows.values()) for point in row if point is not None)


def _all() -> Iterator[Point]:
    for kept in corpus.entries():
        yield from _sized(kept.problem, kept.id, kept.source, DEFAULT_POLICY, kept.candidate)
    for entry in selftest_entries():
        if entry.corpus is Corpus.HONEST and entry.id not in LEFT_OUT:
            name = _problem_name(entry.candidate)
            yield from _sized(name, entry.id, entry.problem.source, entry.problem.policy, entry.candidate)


def _problem_name(candidate: str) -> str:
    line = next(line for line in candidate.splitlines() if line.startswith("# problem: "))
    return line.removeprefix("# problem: ").removeprefix("samples/").strip()


def _sized(problem: str, name: str, source: str, policy: Policy, candidate: str) -> Iterator[Point]:
    given = ProblemSpec(source, case_for("interpreter", declared_cases(source)), policy)
    yield Point(problem, name, GIVEN, given, candidate)
    for size, constants in SIZES.get(problem, {}).items():
        yield Point(problem, name, size, replace(given, source=with_case(source, constants), case=CASE), candidate)


def with_case(source: str, constants: dict[str, Any]) -> str:
    """The problem with one case of these module constants, in place of those it declares."""
    return f"{source}\n\ndef get_cases():\n    return {{{CASE!r}: {constants!r}}}\n"
