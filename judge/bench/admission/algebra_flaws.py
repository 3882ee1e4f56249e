"""What the shapes and operands of a problem's operators say about its worth, as flaws with their source lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from judge.bench.admission.graph_trace import Trace
from judge.bench.admission.op_algebra import Collapse, Idle, collapsing_products, idle_operators
from judge.bench.foreign.loading import PROBLEM, LoadedProblem, LoadError, load_problem
from judge.values import Flaw

MOST_NAMED = 6
Preview = Callable[[LoadedProblem], Trace | None]


def algebra_flaws(traced: Trace, loaded: LoadedProblem, preview: Preview) -> list[Flaw]:
    """Flaws of the traced graph. `preview` traces another case of the problem on shapes alone, None when it cannot.

    What is idle only because a dimension has one element must be so in every declared case.
    """
    if traced.graph is None:
        return []
    idle = [one for one in idle_operators(traced.graph) if not one.single]
    if any(one.by_size for one in idle):
        idle = _in_every_case(idle, loaded, preview)
    flaws = [_idle_flaw(idle, traced)] if idle else []
    return flaws + [_collapse_flaw(one, traced) for one in collapsing_products(traced.graph)]


def _in_every_case(idle: list[Idle], loaded: LoadedProblem, preview: Preview) -> list[Idle]:
    for case in (None, *loaded.cases):
        if case == loaded.case:
            continue
        names = _idle_names(loaded, case, preview)
        if names is not None:
            idle = [one for one in idle if not one.by_size or one.node in names]
    return idle


def _idle_names(loaded: LoadedProblem, case: str | None, preview: Preview) -> set[str] | None:
    """Nodes without work in another case; node names depend on the module's text alone. None when nobody can tell."""
    path = Path(str(loaded.module.__file__))
    folder = path.parent / f"case-{len(list(path.parent.glob('case-*')))}"
    folder.mkdir()
    try:
        other = load_problem(path.read_text(encoding="utf-8"), case, folder, loaded.whereabouts)
        traced = preview(other)
    except LoadError:
        return None
    finally:
        sys.modules[PROBLEM] = loaded.module
    if traced is None or traced.graph is None:
        return None
    return {one.node for one in idle_operators(traced.graph)}


def _idle_flaw(idle: list[Idle], traced: Trace) -> Flaw:
    names = ", ".join(one.op for one in idle[:MOST_NAMED]) + (", ..." if len(idle) > MOST_NAMED else "")
    line = traced.line(idle[0].node)
    why = "over a dimension of one element" if idle[0].by_size else "of a value with itself"
    gives = "a constant" if idle[0].constant else "what it is given"
    many = f"{len(idle)} operators have" if len(idle) > 1 else "One operator has"
    return Flaw(
        "problem.dead_ops",
        f"{many} nothing to do: {names}. The first, {idle[0].op} {why}, returns {gives}"
        f"{f' (`{line}`)' if line else ''}.",
        "Remove such operators, or check the dimensions they reduce: a kernel wins by leaving them out.",
    )


def _collapse_flaw(one: Collapse, traced: Trace) -> Flaw:
    line = traced.line(one.total)
    return Flaw(
        "problem.collapses",
        f"Of the results of {one.op} only sums of {one.factor:,} are used{f' (`{line}`)' if line else ''}: summed "
        f"before the product, almost none of its work is left.",
        "Keep the results of the product, or do something to each of them before they are summed.",
    )
