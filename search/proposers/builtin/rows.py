"""Kernels of element-wise groups and of groups that reduce along rows."""

from __future__ import annotations

import math
from typing import Any

from search.proposers.builtin.kernels import (
    IDENTITY,
    Arguments,
    Axes,
    Operand,
    Tile,
    Written,
    big,
    call,
    config,
    function,
    launch_grid,
    note_of,
    power_of_two,
    split_at,
    striding,
)
from search.proposers.builtin.plans import Group, Layout, Plan
from search.proposers.builtin.program import Prim, Shape, product


class Kernel:
    """The kernel of group `at`; `names` gives the host expression of every tensor it may read."""

    def __init__(self, layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str], axes: Axes) -> None:
        self.layout, self.group, self.plan, self.name, self.names = layout, layout.groups[at], plan, name, names
        self.prims, self.stored = layout.program.prims, layout.stored(at)
        self.arguments = Arguments()
        self.tile = Tile(layout, self.group, self.arguments, axes, plan.evict)

    def store_all(self) -> None:
        for prim in self.stored:
            self.tile.store(prim)

    def walked(
        self,
        body: list[str],
        *,
        tiles: str,
        numbers: dict[str, str],
        count: str,
        constants: dict[str, Any],
        options: dict[str, int],
        tunings: list[tuple[dict[str, Any], int]],
    ) -> Written:
        """A kernel that walks over `tiles`, counted in `numbers` (run-time sizes) and `constants`; `tunings`
        are sizes and warps to choose from where the plan is tuned on first use, `options` those of a fixed plan."""
        auto = self.plan.tune == "auto"
        parameters = [*self.arguments.parameters(), *numbers]
        parameters += [f"{name}: tl.constexpr" for name in ("BIG", *constants)]
        kernel = function(
            self.name,
            parameters,
            striding(self.plan.grid, body, tiles),
            note=note_of(self.layout, self.group),
            configs=[config(sizes, num_warps=warps) for sizes, warps in tunings] if auto else (),
        )
        given = {key: value for key, value in constants.items() if not (auto and key in tunings[0][0])}
        extra = {"BIG": big(count), **given, **({} if auto else options)}
        values = [*numbers.values(), *(f"{key}={value}" for key, value in extra.items())]
        grid = launch_grid(tiles, numbers, None if auto else constants, self.plan)
        return Written(kernel, call(self.name, grid, self.arguments, values, self.names))


class Pointwise(Kernel):
    """Element-wise only: a flat range of elements, or tiles of rows and columns where vectors are broadcast."""

    def __init__(self, layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> None:
        base = layout.groups[at].base
        self.split = _split(layout, layout.groups[at]) if plan.layout == "rows" else None
        self.columns = math.prod(base.shape[self.split :]) if self.split else 1
        axes = Axes(flat=self.split is None, columns=self.columns)
        super().__init__(layout, at, plan, name, names, axes)

    def write(self) -> Written:
        self.store_all()
        sym, block, warps = self.group.base.sym, self.plan.block, self.plan.warps
        count = product(sym)
        numbers, constants, head, tiles = {"total": count}, {"BLOCK": block}, FLAT, "tl.cdiv(total, BLOCK)"
        if self.split is not None:
            width = min(power_of_two(self.columns), block)
            numbers = {"M": product(sym[: self.split]), "N": product(sym[self.split :])}
            constants, head = {"ROWS": max(1, block // width), "COLS": width}, TILED
            tiles = "tl.cdiv(M, ROWS) * tl.cdiv(N, COLS)"
        first = next(iter(constants))
        tunings = [
            ({**constants, first: constants[first] * scale}, several)
            for scale, several in ((1, warps), (2, warps), (2, min(16, warps * 2)), (1, max(1, warps // 2)))
        ]
        return self.walked(
            [*head, *self.tile.lines],
            tiles=tiles,
            numbers=numbers,
            count=count,
            constants=constants,
            options={"num_warps": warps},
            tunings=tunings,
        )


FLAT = [
    "base = tile",
    "if BIG:",
    "    base = tile.to(tl.int64)",
    "lin = base * BLOCK + tl.arange(0, BLOCK)[None, :]",
    "ok = lin < total",
]
TILED = [
    "strips = tl.cdiv(N, COLS)",
    "rows = (tile // strips) * ROWS + tl.arange(0, ROWS)[:, None]",
    "if BIG:",
    "    rows = rows.to(tl.int64)",
    "cols = (tile % strips) * COLS + tl.arange(0, COLS)[None, :]",
    "row_ok = rows < M",
    "col_ok = cols < N",
    "ok = row_ok & col_ok",
    "lin = rows * N + cols",
]


def _split(layout: Layout, group: Group) -> int | None:
    """How many leading dimensions are rows, so that every operand is per row or per column; None: no such split."""
    shape = group.base.shape
    if group.shapes != {shape}:
        return None
    reads = [layout.program.prims[name].shape for name in layout.reads(group)]
    for at in range(1, len(shape)):
        columns, rows = math.prod(shape[at:]), math.prod(shape[:at])
        if columns < 2 or rows < 2 or split_at(shape, columns) != at:
            continue
        if all(_one_sided(own, shape, at) for own in reads):
            return at
    return None


def _one_sided(own: Shape, shape: Shape, at: int) -> bool:
    if own == shape:
        return True
    padded = (1,) * (len(shape) - len(own)) + own
    spans = [d for d in range(len(shape)) if padded[d] != 1 and shape[d] != 1]
    return all(d < at for d in spans) or all(d >= at for d in spans)


ONE_PASS_LIMIT = 32768  # elements of a row held in registers at most


class Reduction(Kernel):
    """Rows in registers (once) or rows walked in blocks, one walk per level of dependent reductions (loop)."""

    def __init__(self, layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> None:
        span = layout.groups[at].span
        assert span is not None
        self.span = span
        super().__init__(layout, at, plan, name, names, Axes(trailing=span.trailing, columns=span.key[1]))
        self.loop = plan.reduce == "loop" or power_of_two(span.key[1]) > ONE_PASS_LIMIT

    def write(self) -> Written:
        body, span, plan = self._looped() if self.loop else self._once(), self.span, self.plan
        rows = product([span.before, span.after])
        constants: dict[str, Any] = {
            "ROWS": plan.rows if span.trailing else max(plan.rows, 32),
            "BLOCK": f"triton.next_power_of_2({span.size})",
        }
        if self.loop:
            constants["BLOCK"] = plan.loop_block if span.trailing else max(4, plan.loop_block // 64)
        tuned = {"BLOCK": constants["BLOCK"]} if self.loop else {}
        head = ["rows = tile * ROWS + tl.arange(0, ROWS)[:, None]", "if BIG:", "    rows = rows.to(tl.int64)"]
        return self.walked(
            [*head, "row_ok = rows < M", *body],
            tiles="tl.cdiv(M, ROWS)",
            numbers={"M": rows, "N": span.size} | ({} if span.trailing else {"I": span.after}),
            count=product([rows, span.size]),
            constants=constants,
            options={"num_warps": plan.row_warps} | ({"num_stages": plan.stages} if self.loop else {}),
            tunings=[
                ({"ROWS": constants["ROWS"] * many, **tuned}, min(16, plan.row_warps * warps))
                for many, warps in ((1, 1), (1, 2), (2, 1), (1, 4))
            ],
        )

    def _columns(self, start: str = "") -> list[str]:
        lin = "rows * N + cols" if self.span.trailing else "(rows // I) * (N * I) + cols * I + rows % I"
        return [
            f"cols = {start}tl.arange(0, BLOCK)[None, :]",
            "col_ok = cols < N",
            "ok = row_ok & col_ok",
            f"lin = {lin}",
        ]

    def _once(self) -> list[str]:
        self.store_all()
        return [*self._columns(), *self.tile.lines]

    def _looped(self) -> list[str]:
        depth = self._depths()
        last = max(depth[name] for name in self.group.members if self.prims[name].kind == "reduce")
        pending = [prim for prim in self.stored if self.group.scopes[prim.name] == "full"]
        deepest = max([last, *(depth[prim.name] + 1 for prim in pending)])
        lines: list[str] = []
        for level in range(1, deepest + 1):
            lines += self._rows_known(depth, level - 1)
            members = [self.prims[name] for name in self.group.members if depth[name] == level]
            reductions = [prim for prim in members if prim.kind == "reduce"]
            stores = [prim for prim in pending if depth[prim.name] == level - 1]
            lines += self._walk(reductions, stores)
        lines += self._rows_known(depth, deepest)
        for prim in self.stored:
            if self.group.scopes[prim.name] == "row":
                self.tile.store(prim)
        lines += self._taken()
        return lines

    def _taken(self) -> list[str]:
        lines, self.tile.lines = self.tile.lines, []
        return lines

    def _depths(self) -> dict[str, int]:
        """How many walks over the row must be finished before a member is known."""
        depth: dict[str, int] = {}
        for name in self.group.members:
            prim = self.prims[name]
            below = max((depth.get(ref, 0) for ref in prim.refs()), default=0)
            depth[name] = below + 1 if prim.kind == "reduce" else below
        return depth

    def _rows_known(self, depth: dict[str, int], level: int) -> list[str]:
        """Row-scope values whose reductions are finished, written outside the next loop."""
        for name in self.group.members:
            if self.group.scopes[name] == "row" and self.prims[name].kind != "reduce" and depth[name] <= level:
                self.tile.member(name)
        return self._taken()

    def _walk(self, reductions: list[Prim], stores: list[Prim]) -> list[str]:
        if not reductions and not stores:
            return []
        tile = self.tile
        tile.looping, tile.inner = True, {}
        sums = {prim.name: f"acc_{prim.name}" for prim in reductions}
        before = [f"{sums[p.name]} = tl.full([ROWS, BLOCK], {IDENTITY[p.op]}, tl.float32)" for p in reductions]
        for prim in reductions:
            value = tile.reduction_input(prim).text
            own = sums[prim.name]
            if prim.op == "sum":
                tile.lines.append(f"{own} += tl.where(ok, {value}, 0.0)")
            else:
                better = "maximum" if prim.op == "max" else "minimum"
                tile.lines.append(f"{own} = tl.{better}({own}, tl.where(ok, {value}, {IDENTITY[prim.op]}))")
        for prim in stores:
            tile.store(prim)
        inside = self._taken()
        tile.looping, tile.inner = False, {}
        loop = ["for start in range(0, N, BLOCK):", *("    " + line for line in [*self._columns("start + "), *inside])]
        after = []
        for prim in reductions:
            name = f"red_{prim.name}"
            after.append(f"{name} = tl.{prim.op}({sums[prim.name]}, axis=1, keep_dims=True)")
            tile.outer[prim.name] = Operand(name, "float")
        return [*before, *loop, *after]
