"""Operators that by their shapes and operands alone have nothing to do, and products of which only a sum is used.

Reads the op graph only: it needs neither values nor memory, so it speaks of problems that are too large to run here.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge.bench.admission.graph import Trace, base_name, references
from judge.bench.admission.size import preview
from judge.bench.foreign.loading import PROBLEM, LoadedProblem, LoadError, load_problem
from judge.values import Flaw
from judge.values.graph import OpGraph, OpNode, TensorInfo

SHORTCUT = 4  # a sum over fewer results than this saves too little to speak of

# What these make of one element is that element.
_SAME_OF_ONE = frozenset(
    {
        "sum", "mean", "nansum", "nanmean", "prod", "amax", "amin", "max", "min", "median", "nanmedian", "logsumexp",
        "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin",
    }
)  # fmt: skip
# What these make of one element is a constant: 1 for softmax, 0 or NaN for the others.
_CONSTANT_OF_ONE = frozenset({"softmax", "log_softmax", "var", "std", "argmax", "argmin"})
_SAME_OF_TWINS = frozenset(
    {
        "minimum", "maximum", "min", "max", "fmin", "fmax", "logical_and", "logical_or", "bitwise_and", "bitwise_or",
        "where",
    }
)  # fmt: skip
_CONSTANT_OF_TWINS = frozenset(
    {"sub", "div", "true_divide", "eq", "ne", "lt", "gt", "le", "ge", "bitwise_xor", "logical_xor"}
)
_RANDOM = ("dropout", "rand", "bernoulli", "multinomial", "normal", "uniform", "exponential")
_SUMS = frozenset({"sum", "mean", "nansum", "nanmean"})
_SHARED_WEIGHT = frozenset({"linear", "mm", "addmm"})
_BATCHED = frozenset({"matmul", "bmm", "baddbmm"})


@dataclass(frozen=True)
class Idle:
    """An operator without work. `by_size`: only because dimensions have one element, so another case may differ."""

    node: str
    op: str  # "logsumexp"
    constant: bool  # it gives a constant; else it gives back its operand
    by_size: bool
    single: bool  # its whole operand is one element: nothing worth saying


@dataclass(frozen=True)
class Collapse:
    """A product whose results are only summed, `factor` of them into one: the sum can be taken before the product."""

    node: str
    op: str
    total: str  # the summing node
    factor: int


def idle_operators(graph: OpGraph) -> list[Idle]:
    """Reductions over one element, and operators between a value and itself, in graph order."""
    view = _View(graph)
    found = []
    for node in graph.nodes:
        if node.op.startswith("aten."):
            idle = _over_one_element(view, node) or _between_twins(view, node)
            if idle is not None:
                found.append(idle)
    return found


def collapsing_products(graph: OpGraph) -> list[Collapse]:
    """Matrix products and convolutions of whose results only sums over free dimensions are used."""
    view = _View(graph)
    found = [_collapse(view, node) for node in graph.nodes]
    return [collapse for collapse in found if collapse is not None]


def base(node: OpNode) -> str:
    """As `base_name`, for inner operators too: `aten._softmax.default` -> `softmax`."""
    return base_name(node).lstrip("_")


class _View:
    """The graph by name: shapes, users, and one name for equal expressions."""

    def __init__(self, graph: OpGraph) -> None:
        self.infos: dict[str, TensorInfo | None] = {node.name: node.out for node in graph.nodes}
        self.users: dict[str, list[OpNode]] = {node.name: [] for node in graph.nodes}
        self.same: dict[str, str] = {}
        known: dict[str, str] = {}
        for node in graph.nodes:
            for name in references((node.args, node.kwargs)):
                self.users[self.same[name]].append(node)
            self.same[node.name] = known.setdefault(self._expression(node), node.name)

    def _expression(self, node: OpNode) -> str:
        """Equal for nodes that compute the same: the operator with its operands' own first names."""
        if not node.op.startswith("aten.") or any(word in node.op for word in _RANDOM):
            return f"{node.op} {node.name}" if node.op != "getitem" else json.dumps(self._named(node.args))
        return json.dumps([node.op, self._named(node.args), self._named(node.kwargs)], sort_keys=True)

    def _named(self, value: Any) -> Any:
        if isinstance(value, dict):
            if isinstance(value.get("node"), str) and len(value) == 1:
                return {"node": self.same.get(value["node"], value["node"])}
            return {key: self._named(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._named(item) for item in value]
        return value

    def operand(self, node: OpNode) -> TensorInfo | None:
        names = references(node.args[:1])
        return self.infos.get(names[0]) if names else None


def _over_one_element(view: _View, node: OpNode) -> Idle | None:
    name, operand = base(node), view.operand(node)
    if operand is None or (len(node.args) > 1 and references(node.args[1:2])):  # max(a, b) is no reduction
        return None
    single = math.prod(operand.shape) <= 1
    if "pool" in name:
        return _idle(node, single=single) if _one_element_windows(node, operand) else None
    if name not in _SAME_OF_ONE | _CONSTANT_OF_ONE:
        return None
    if any(operand.shape[dim] != 1 for dim in _dims(node, len(operand.shape))) or not operand.shape:
        return None
    return _idle(node, constant=name in _CONSTANT_OF_ONE, single=single)


def _idle(node: OpNode, *, constant: bool = False, by_size: bool = True, single: bool = False) -> Idle:
    return Idle(node.name, base(node), constant, by_size, single)


def _one_element_windows(node: OpNode, operand: TensorInfo) -> bool:
    if node.out is None or node.out.shape != operand.shape:
        return False
    if base(node).startswith("adaptive"):
        return True
    window = node.args[1] if len(node.args) > 1 else None
    return isinstance(window, list) and all(size == 1 for size in window)


def _dims(node: OpNode, rank: int) -> list[int]:
    """Reduced dimensions, counted from the front; all of them when none is named."""
    raw = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    listed = [raw] if isinstance(raw, int) and not isinstance(raw, bool) else raw
    if not isinstance(listed, list) or not listed or not all(isinstance(dim, int) for dim in listed):
        return list(range(rank))
    return [dim % rank for dim in listed] if rank else []


def _between_twins(view: _View, node: OpNode) -> Idle | None:
    name = base(node)
    operands = [references([arg]) for arg in node.args]
    pair = operands[1:3] if name == "where" else operands[:2]
    if len(pair) < 2 or not all(len(names) == 1 for names in pair):
        return None
    left, right = (view.same.get(names[0], names[0]) for names in pair)
    if left != right or name not in _SAME_OF_TWINS | _CONSTANT_OF_TWINS or node.kwargs.get("alpha", 1) != 1:
        return None
    return _idle(node, constant=name in _CONSTANT_OF_TWINS, by_size=False)


def _collapse(view: _View, product: OpNode) -> Collapse | None:
    free = _free_dims(view, product)
    if not free or product.out is None:
        return None
    shape, here = product.out.shape, product
    while len(users := view.users[view.same[here.name]]) == 1:
        (user,) = users
        if base(user) in _SUMS and references(user.args[:1]) == [here.name]:
            summed = [dim for dim in _dims(user, len(shape)) if shape[dim] > 1]
            factor = _summed_freely(product, free, summed, shape)
            return Collapse(product.name, base(product), user.name, factor) if factor >= SHORTCUT else None
        if not _keeps_sums(view, user, shape):
            return None
        here = user
    return None


def _free_dims(view: _View, node: OpNode) -> frozenset[int]:
    """Result dimensions that can be summed before the product: those that one operand alone has."""
    name, rank = base(node), len(node.out.shape) if node.out else 0
    if name in _SHARED_WEIGHT:
        return frozenset(range(rank))
    if name in _BATCHED:
        names = references(node.args[:3] if name == "baddbmm" else node.args[:2])
        last = view.infos.get(names[-1]) if len(names) > 1 else None
        shared = last is not None and len(last.shape) == 2
        return frozenset(range(rank) if shared else range(max(0, rank - 2), rank))
    if name.startswith("conv"):
        return frozenset(range(rank))
    return frozenset()


def _summed_freely(product: OpNode, free: frozenset[int], summed: list[int], shape: tuple[int, ...]) -> int:
    dims = free & set(summed)
    if base(product).startswith("conv"):
        spatial = set(range(2, len(shape)))
        if not {dim for dim in spatial if shape[dim] > 1} <= dims:
            dims -= spatial
        if _groups(product) != 1:
            dims -= {1}
    return math.prod(shape[dim] for dim in dims)


def _groups(node: OpNode) -> int:
    """`groups` of conv (place 6) or conv_transpose (place 6 too: stride, padding, output_padding come before)."""
    place = 6
    found = node.args[place] if len(node.args) > place else node.kwargs.get("groups", 1)
    return found if isinstance(found, int) else 1


def _keeps_sums(view: _View, node: OpNode, shape: tuple[int, ...]) -> bool:
    """Whether the sum of its results is a linear function of the sum of its operand: scaling, adding something."""
    if node.out is None or node.out.shape != shape:
        return False
    name = base(node)
    if name in {"neg", "clone", "contiguous", "add", "sub", "rsub"}:
        return True
    if name in {"mul", "div"}:
        return all(_is_one_value(view, arg) for arg in node.args[1:2]) and bool(references(node.args[:1]))
    return False


def _is_one_value(view: _View, argument: Any) -> bool:
    names = references([argument])
    info = view.infos.get(names[0]) if names else None
    return not names or (info is not None and math.prod(info.shape) == 1)


MOST_NAMED = 6


def algebra_flaws(traced: Trace, loaded: LoadedProblem) -> list[Flaw]:
    """Flaws of the traced graph. What is idle only because a dimension has one element must be so in every case."""
    if traced.graph is None:
        return []
    idle = [one for one in idle_operators(traced.graph) if not one.single]
    if any(one.by_size for one in idle):
        idle = _in_every_case(idle, loaded)
    flaws = [_idle_flaw(idle, traced)] if idle else []
    return flaws + [_collapse_flaw(one, traced) for one in collapsing_products(traced.graph)]


def _in_every_case(idle: list[Idle], loaded: LoadedProblem) -> list[Idle]:
    for case in (None, *loaded.cases):
        if case == loaded.case:
            continue
        names = _idle_names(loaded, case)
        if names is not None:
            idle = [one for one in idle if not one.by_size or one.node in names]
    return idle


def _idle_names(loaded: LoadedProblem, case: str | None) -> set[str] | None:
    """Nodes without work in another case; node names depend on the module's text alone. None when nobody can tell."""
    path = Path(str(loaded.module.__file__))
    folder = path.parent / f"case-{len(list(path.parent.glob('case-*')))}"
    folder.mkdir()
    try:
        seen = preview(load_problem(path.read_text(encoding="utf-8"), case, folder, loaded.whereabouts))
    except LoadError:
        return None
    finally:
        sys.modules[PROBLEM] = loaded.module
    if seen is None or seen.traced.graph is None:
        return None
    return {one.node for one in idle_operators(seen.traced.graph)}


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
