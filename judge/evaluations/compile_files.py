"""Compiling from files: which of them is the problem, and a table of what every kernel needs. No Django, no torch."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge.bench.interpreting.targets import target
from judge.sources.checks import case_for, cases_computed, declared_cases
from judge.values import Outcome
from judge.values.parsing import parse_module

PLAIN = "plain"  # asks for the problem's plain constants, whatever cases it has
_HEAD = ("kernel", "launches", "configuration", "warps", "stages", "registers", "spills", "shared memory, bytes")


class NotUsable(Exception):
    """The files do not make candidates and a problem; the text says what to give."""


@dataclass(frozen=True)
class Candidate:
    """A file with ModelNew, and the text of the problem it is compiled for."""

    name: str
    source: str
    problem: str


def candidates(paths: Iterable[Path], problem: str | None) -> list[Candidate]:
    """Files that define ModelNew, in order. Their problem: `problem`, else the one file among them that defines only
    Model, else the candidate's own file. Raises NotUsable."""
    texts = {path: _text(path) for path in paths}
    names = {path: _classes(text) for path, text in texts.items()}
    alone = [path for path, found in names.items() if "Model" in found and "ModelNew" not in found]
    if problem is None and len(alone) > 1:
        raise NotUsable(f"More than one problem is given: {', '.join(path.name for path in alone)}. Name one.")
    if problem is None and alone:
        problem = texts[alone[0]]
    found = [path for path in texts if path not in alone]
    if not found:
        raise NotUsable("None of the files defines ModelNew, the candidate's class.")
    return [Candidate(path.name, texts[path], _problem_of(path, texts[path], names[path], problem)) for path in found]


def case_to_compile(problem: str, asked: str | None, read: Sequence[str] = ()) -> str | None:
    """The case that is compiled: `asked`, else the one that a GPU judges (ADR 4); None for the plain constants.

    `read` holds the names that a preflight read from `get_cases()`. Raises NotUsable where the names are computed and
    neither says them.
    """
    names = declared_cases(problem) or tuple(read)
    if asked is not None:
        return None if asked == PLAIN and PLAIN not in names else asked
    if not names and cases_computed(problem):
        raise NotUsable(
            "get_cases() computes the names of its cases, and no preflight has read them. Run the preflight first, or "
            f"compile from files with --case NAME (--case {PLAIN}: the plain constants)."
        )
    return case_for("compile", names)


def case_said(case: str | None) -> str:
    """The case as text."""
    return f"case {case}" if case else "plain constants"


def _problem_of(path: Path, text: str, names: set[str], problem: str | None) -> str:
    if problem is not None:
        return problem
    if {"Model", "get_inputs"} <= names:
        return text
    raise NotUsable(
        f"{path.name} has no problem: give the file that defines Model and get_inputs as well, or --problem."
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotUsable(f"{path} cannot be read: {error}") from error


def _classes(text: str) -> set[str]:
    """Names of top-level classes and functions; none of text that does not parse, which the judge then says."""
    try:
        body = parse_module(text).body
    except (SyntaxError, ValueError, RecursionError):
        return set()
    return {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def table(outcome: Outcome, target_name: str) -> list[str]:
    """A line for each kernel with its needs; equal launches are counted."""
    if not outcome.kernels:
        return ["no kernel is launched"] if outcome.verdict == "compiled_only" else []
    available = target(target_name).shared_per_block_bytes
    counts: dict[tuple[str, ...], int] = {}
    for row in outcome.kernels:
        cells = _cells(row, available)
        counts[cells] = counts.get(cells, 0) + 1
    rows = [_HEAD, *((cells[0], str(count), *cells[1:]) for cells, count in counts.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cells(row: dict[str, Any], available: int) -> tuple[str, ...]:
    shared = "-" if row["shared_bytes"] is None else f"{row['shared_bytes']:,} of {available:,}"
    chosen = f"first that fits of {row['configs']}" if row.get("configs") else "-"
    numbers = (row[name] for name in ("num_warps", "num_stages", "regs", "spills"))
    return (str(row["name"]), chosen, *("-" if number is None else str(number) for number in numbers), shared)
