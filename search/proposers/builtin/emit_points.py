"""Element-wise kernels: flat ranges of elements, or tiles of rows and columns where vectors are broadcast."""

from __future__ import annotations

from typing import Any

from search.proposers.builtin.fuse import Group, Layout
from search.proposers.builtin.ir import Prim, product
from search.proposers.builtin.kernel import Arguments, Axes, Tile, split_at
from search.proposers.builtin.plans import Plan
from search.proposers.builtin.tiling import launch_grid, note_of, power_of_two, striding
from search.proposers.builtin.written import Written, big, call, function


def write_points(layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> Written:
    """A kernel for an element-wise group; `names` gives the host expression of every tensor it may read."""
    columns = _columns(layout, layout.groups[at]) if plan.layout == "rows" else None
    return _Pointwise(layout, at, plan, name, names, columns).write()


def _columns(layout: Layout, group: Group) -> tuple[int, str] | None:
    """The trailing dimensions (how many elements, run-time text) that make every operand per row or per column."""
    base = group.base
    if group.shapes != {base.shape}:
        return None
    for at in range(1, len(base.shape)):
        columns, rows = 1, 1
        for size in base.shape[at:]:
            columns *= size
        for size in base.shape[:at]:
            rows *= size
        if columns < 2 or rows < 2 or split_at(base.shape, columns) != at:
            continue
        if all(_one_sided(prim.shape, base.shape, at) for prim in _reads(layout, group)):
            return columns, product(base.sym[at:])
    return None


def _one_sided(own: tuple[int, ...], shape: tuple[int, ...], at: int) -> bool:
    if own == shape:
        return True
    padded = (1,) * (len(shape) - len(own)) + own
    spans = [d for d in range(len(shape)) if padded[d] != 1 and shape[d] != 1]
    return all(d < at for d in spans) or all(d >= at for d in spans)


def _reads(layout: Layout, group: Group) -> list[Prim]:
    found: dict[str, Prim] = {}

    def visit(prim: Prim) -> None:
        for name in prim.refs():
            if name in layout.floating:
                visit(layout.program.prims[name])
            elif name not in group.scopes:
                found[name] = layout.program.prims[name]

    for member in group.members:
        visit(layout.program.prims[member])
    return list(found.values())


class _Pointwise:
    """Element-wise only: a flat range of elements, or tiles of rows and columns where vectors are broadcast."""

    def __init__(
        self, layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str], columns: tuple[int, str] | None
    ) -> None:
        self.layout, self.group, self.plan, self.name, self.names = layout, layout.groups[at], plan, name, names
        self.stored = layout.stored(at)
        self.columns = columns
        axes = Axes(flat=columns is None, columns=columns[0] if columns else 1)
        self.arguments = Arguments()
        self.tile = Tile(layout, self.group, self.arguments, axes, plan.evict)

    def write(self) -> Written:
        for prim in self.stored:
            self.tile.store(prim)
        count = product(self.group.base.sym)
        if self.columns is None:
            head, sizes, grid = self._flat(count)
        else:
            head, sizes, grid = self._tiled(count, self.columns[1])
        plan = self.plan
        body = striding(plan.grid, head, self.tile.lines, sizes["tiles"])
        constants = sizes["constants"]
        configs = None
        extra = [*sizes["values"], f"BIG={big(count)}"]
        if plan.tune == "auto":
            configs = _pointwise_configs(plan, constants)
        else:
            extra += [f"{key}={value}" for key, value in constants.items()] + [f"num_warps={plan.warps}"]
        parameters = [*self.arguments.parameters(), *sizes["parameters"], "BIG: tl.constexpr"]
        parameters += [f"{key}: tl.constexpr" for key in constants]
        kernel = function(self.name, parameters, body, note=note_of(self.layout, self.group), configs=configs)
        grid = launch_grid(grid, constants if plan.tune != "auto" else None, plan)
        return Written(kernel, call(self.name, grid, self.arguments, extra, self.names))

    def _flat(self, count: str) -> tuple[list[str], dict[str, Any], str]:
        head = [
            "base = tile",
            "if BIG:",
            "    base = tile.to(tl.int64)",
            "lin = base * BLOCK + tl.arange(0, BLOCK)[None, :]",
            "ok = lin < total",
        ]
        sizes = {
            "tiles": "tl.cdiv(total, BLOCK)",
            "parameters": ["total"],
            "values": [count],
            "constants": {"BLOCK": self.plan.block},
        }
        return head, sizes, f"triton.cdiv({count}, BLOCK)"

    def _tiled(self, count: str, columns: str) -> tuple[list[str], dict[str, Any], str]:
        rows = product(self.group.base.sym[: len(self.group.base.sym) - _trailing(self.group.base, self.columns)])
        head = [
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
        width = min(power_of_two(self.columns[0] if self.columns else 1), self.plan.block)
        constants = {"ROWS": max(1, self.plan.block // width), "COLS": width}
        sizes = {
            "tiles": "tl.cdiv(M, ROWS) * tl.cdiv(N, COLS)",
            "parameters": ["M", "N"],
            "values": [rows, columns],
            "constants": constants,
        }
        return head, sizes, f"triton.cdiv({rows}, ROWS) * triton.cdiv({columns}, COLS)"


def _trailing(base: Prim, columns: tuple[int, str] | None) -> int:
    at = split_at(base.shape, columns[0] if columns else 1)
    assert at is not None
    return len(base.shape) - at


def _pointwise_configs(plan: Plan, constants: dict[str, int]) -> list[str]:
    out = []
    for scale, warps in ((1, plan.warps), (2, plan.warps), (2, min(16, plan.warps * 2)), (1, max(1, plan.warps // 2))):
        first = next(iter(constants))
        sizes = {key: value * scale if key == first else value for key, value in constants.items()}
        text = ", ".join(f'"{key}": {value}' for key, value in sizes.items())
        out.append(f"triton.Config({{{text}}}, num_warps={warps})")
    return list(dict.fromkeys(out))
