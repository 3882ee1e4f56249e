"""Element-wise kernels, and kernels that reduce along one run of dimensions with what comes before and after."""

from __future__ import annotations

from typing import Any

from search.proposers.builtin.elementwise import Operand
from search.proposers.builtin.fuse import Group, Layout
from search.proposers.builtin.ir import Prim, product
from search.proposers.builtin.kernel import IDENTITY, Arguments, Axes, Tile, _split
from search.proposers.builtin.plans import Plan
from search.proposers.builtin.written import Written, big, call, function

ONE_PASS_LIMIT = 32768  # elements of a row held in registers at most


def write_rows(layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> Written:
    """A kernel for group `at`; `names` gives the host expression of every tensor it may read."""
    group = layout.groups[at]
    if group.span is not None:
        return _Reduction(layout, at, plan, name, names).write()
    columns = _columns(layout, group) if plan.layout == "rows" else None
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
        if columns < 2 or rows < 2 or _split(base.shape, columns) != at:
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
        body = _striding(plan.grid, head, self.tile.lines, sizes["tiles"])
        constants = sizes["constants"]
        configs = None
        extra = [*sizes["values"], f"BIG={big(count)}"]
        if plan.tune == "auto":
            configs = _pointwise_configs(plan, constants)
        else:
            extra += [f"{key}={value}" for key, value in constants.items()] + [f"num_warps={plan.warps}"]
        parameters = [*self.arguments.parameters(), *sizes["parameters"], "BIG: tl.constexpr"]
        parameters += [f"{key}: tl.constexpr" for key in constants]
        kernel = function(self.name, parameters, body, note=_note(self.layout, self.group), configs=configs)
        grid = _grid(grid, constants if plan.tune != "auto" else None, plan)
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
        width = min(_power(self.columns[0] if self.columns else 1), self.plan.block)
        constants = {"ROWS": max(1, self.plan.block // width), "COLS": width}
        sizes = {
            "tiles": "tl.cdiv(M, ROWS) * tl.cdiv(N, COLS)",
            "parameters": ["M", "N"],
            "values": [rows, columns],
            "constants": constants,
        }
        return head, sizes, f"triton.cdiv({rows}, ROWS) * triton.cdiv({columns}, COLS)"


def _trailing(base: Prim, columns: tuple[int, str] | None) -> int:
    at = _split(base.shape, columns[0] if columns else 1)
    assert at is not None
    return len(base.shape) - at


def _power(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()


def _pointwise_configs(plan: Plan, constants: dict[str, int]) -> list[str]:
    out = []
    for scale, warps in ((1, plan.warps), (2, plan.warps), (2, min(16, plan.warps * 2)), (1, max(1, plan.warps // 2))):
        first = next(iter(constants))
        sizes = {key: value * scale if key == first else value for key, value in constants.items()}
        text = ", ".join(f'"{key}": {value}' for key, value in sizes.items())
        out.append(f"triton.Config({{{text}}}, num_warps={warps})")
    return list(dict.fromkeys(out))


def _striding(grid: str, head: list[str], lines: list[str], tiles: str) -> list[str]:
    """One tile per program, or a grid of fixed size whose programs walk over the tiles."""
    if grid == "stride":
        return [
            f"for tile in range(tl.program_id(0), {tiles}, tl.num_programs(0)):",
            *("    " + x for x in head + lines),
        ]
    return ["tile = tl.program_id(0)", *head, *lines]


def _grid(text: str, constants: dict[str, Any] | None, plan: Plan) -> str:
    """The launch grid; names of tile sizes are replaced by their values, or read from the chosen configuration."""
    if constants is None:
        for key in ("BLOCK", "ROWS", "COLS"):
            text = text.replace(f", {key})", f', meta["{key}"])')
    else:
        for key, value in constants.items():
            text = text.replace(f", {key})", f", {value})")
    if plan.grid == "stride":
        text = f"_resident({text}, {plan.waves})"
    return f"lambda meta: ({text},)" if constants is None else f"({text},)"


def _note(layout: Layout, group: Group) -> str:
    operators = dict.fromkeys(layout.program.prims[name].attrs.get("node", name) for name in group.members)
    return f"Fused: {', '.join(operators)}."


class _Reduction:
    """Rows in registers (once) or rows walked in blocks, one walk per level of dependent reductions (loop)."""

    def __init__(self, layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> None:
        self.layout, self.group, self.plan, self.name, self.names = layout, layout.groups[at], plan, name, names
        assert self.group.span is not None
        self.span = self.group.span
        self.stored = layout.stored(at)
        self.arguments = Arguments()
        axes = Axes(trailing=self.span.trailing, columns=self.span.key[1])
        self.tile = Tile(layout, self.group, self.arguments, axes, plan.evict)
        self.loop = plan.reduce == "loop" or _power(self.span.key[1]) > ONE_PASS_LIMIT
        self.prims = layout.program.prims

    def write(self) -> Written:
        body = self._looped() if self.loop else self._once()
        span, plan = self.span, self.plan
        rows = product([text for text in (span.before, span.after) if text != "1"])
        numbers = {"M": rows, "N": span.size} | ({} if span.trailing else {"I": span.after})
        constants = self._constants()
        head = ["rows = tile * ROWS + tl.arange(0, ROWS)[:, None]", "if BIG:", "    rows = rows.to(tl.int64)"]
        head += ["row_ok = rows < M"]
        lines = _striding(plan.grid, head, body, "tl.cdiv(M, ROWS)")
        parameters = [
            *self.arguments.parameters(),
            *numbers,
            "BIG: tl.constexpr",
            *(f"{k}: tl.constexpr" for k in constants),
        ]
        extra = [*numbers.values(), f"BIG={big(f'{product([rows, span.size])}')}"]
        configs = None
        if plan.tune == "auto":
            configs = self._configs(constants)
            if not self.loop:
                extra.append(f"BLOCK={constants['BLOCK']}")
        else:
            extra += [f"{key}={value}" for key, value in constants.items()] + [f"num_warps={plan.row_warps}"]
            if self.loop:
                extra.append(f"num_stages={plan.stages}")
        kernel = function(self.name, parameters, lines, note=_note(self.layout, self.group), configs=configs)
        grid = _grid(f"triton.cdiv({rows}, ROWS)", None if plan.tune == "auto" else constants, plan)
        return Written(kernel, call(self.name, grid, self.arguments, extra, self.names))

    def _constants(self) -> dict[str, Any]:
        plan = self.plan
        if self.loop:
            block: Any = plan.loop_block
            if not self.span.trailing:
                block = max(4, plan.loop_block // 64)
        else:
            block = f"triton.next_power_of_2({self.span.size})"
        rows = plan.rows if self.span.trailing else max(plan.rows, 32)
        return {"ROWS": rows, "BLOCK": block}

    def _configs(self, constants: dict[str, Any]) -> list[str]:
        out = []
        for rows, warps in ((1, 1), (1, 2), (2, 1), (1, 4)):
            sizes = {"ROWS": constants["ROWS"] * rows}
            if self.loop:
                sizes["BLOCK"] = constants["BLOCK"]
            text = ", ".join(f'"{key}": {value}' for key, value in sizes.items())
            out.append(f"triton.Config({{{text}}}, num_warps={min(16, self.plan.row_warps * warps)})")
        return list(dict.fromkeys(out))

    def _columns(self, start: str = "") -> list[str]:
        lin = "rows * N + cols" if self.span.trailing else "(rows // I) * (N * I) + cols * I + rows % I"
        return [
            f"cols = {start}tl.arange(0, BLOCK)[None, :]",
            "col_ok = cols < N",
            "ok = row_ok & col_ok",
            f"lin = {lin}",
        ]

    def _once(self) -> list[str]:
        for prim in self.stored:
            self.tile.store(prim)
        return [*self._columns(), *self.tile.lines]

    def _looped(self) -> list[str]:
        depth = self._depths()
        last = max(depth[name] for name in self.group.members if self.prims[name].kind == "reduce")
        pending = [prim for prim in self.stored if self.group.scopes[prim.name] == "full"]
        deepest = max([last, *(depth[prim.name] + 1 for prim in pending)])
        lines: list[str] = []
        for level in range(1, deepest + 1):
            lines += self._rows_known(depth, level - 1)
            reductions = [self.prims[n] for n in self.group.members if self._reduces_at(n, depth, level)]
            stores = [prim for prim in pending if depth[prim.name] == level - 1]
            lines += self._walk(reductions, stores)
        lines += self._rows_known(depth, deepest)
        for prim in self.stored:
            if self.group.scopes[prim.name] == "row":
                self.tile.store(prim)
        lines += self._taken()
        return lines

    def _reduces_at(self, name: str, depth: dict[str, int], level: int) -> bool:
        return self.prims[name].kind == "reduce" and depth[name] == level

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
