"""The kernels of a group: element-wise, row reductions, products with their tail, attention."""

from __future__ import annotations

import dataclasses
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
    function,
    launch_grid,
    note_of,
    power_of_two,
    split_at,
    striding,
)
from search.proposers.builtin.plans import Group, Layout, Plan
from search.proposers.builtin.program import Prim, Program, product


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


ONE_PASS_LIMIT = 32768  # elements of a row held in registers at most


def write_rows(layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> Written:
    """A kernel for group `at`; `names` gives the host expression of every tensor it may read."""
    if layout.groups[at].span is None:
        return write_points(layout, at, plan, name, names)
    return _Reduction(layout, at, plan, name, names).write()


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
        self.loop = plan.reduce == "loop" or power_of_two(self.span.key[1]) > ONE_PASS_LIMIT
        self.prims = layout.program.prims

    def write(self) -> Written:
        body = self._looped() if self.loop else self._once()
        span, plan = self.span, self.plan
        rows = product([text for text in (span.before, span.after) if text != "1"])
        numbers = {"M": rows, "N": span.size} | ({} if span.trailing else {"I": span.after})
        constants = self._constants()
        head = ["rows = tile * ROWS + tl.arange(0, ROWS)[:, None]", "if BIG:", "    rows = rows.to(tl.int64)"]
        head += ["row_ok = rows < M"]
        lines = striding(plan.grid, head, body, "tl.cdiv(M, ROWS)")
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
        kernel = function(self.name, parameters, lines, note=note_of(self.layout, self.group), configs=configs)
        grid = launch_grid(f"triton.cdiv({rows}, ROWS)", None if plan.tune == "auto" else constants, plan)
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


ORDER = [
    "tiles_m = tl.cdiv(M, BM)",
    "tiles_n = tl.cdiv(N, BN)",
    "width = GROUP * tiles_n",
    "first = (tile // width) * GROUP",
    "high = min(tiles_m - first, GROUP)",
    "at_m = (first + (tile % width) % high) * BM + tl.arange(0, BM)",
    "at_n = ((tile % width) // high) * BN + tl.arange(0, BN)",
    "if BIG:",
    "    at_m = at_m.to(tl.int64)",
    "    at_n = at_n.to(tl.int64)",
]

EPILOGUE = [
    "cols = at_n[None, :]",
    "row_ok = at_m[:, None] < M",
    "col_ok = cols < N",
    "ok = row_ok & col_ok",
    "lin = rows * N + cols",
]


def write_matmul(layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> Written:
    """The kernel or kernels for a product and its tail."""
    return _Matmul(layout, at, plan, name, names).write()


class _Matmul:
    def __init__(self, layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> None:
        self.layout, self.group, self.plan, self.name, self.names = layout, layout.groups[at], plan, name, names
        self.prims = layout.program.prims
        self.root: Prim = self.prims[self.group.members[0]]
        self.left, self.right = (self.prims[ref] for ref in self.root.refs())
        self.batched = len(self.right.shape) > 2
        self.stored = layout.stored(at)
        self.arguments = Arguments()
        self.tile = Tile(layout, self.group, self.arguments, Axes(columns=self.root.shape[-1]), plan.evict)
        self.tile.outer[self.root.name] = Operand("acc", "float")
        for prim in self.stored:
            self.tile.store(prim)

    def write(self) -> Written:
        return self._split() if self.plan.split_k > 1 else self._whole()

    # host side

    def _views(self) -> list[str]:
        """Operands as matrices, or as stacks of matrices, without a copy where their strides allow it."""
        a, b, own = self.names[self.left.name], self.names[self.right.name], self.root.name
        if not self.batched:
            return [f"a_{own} = {a}.reshape(-1, {a}.shape[-1])", f"b_{own} = {b}"]
        return [f"{x}_{own} = {t}.reshape(-1, {t}.shape[-2], {t}.shape[-1])" for x, t in (("a", a), ("b", b))]

    def _sizes(self) -> dict[str, str]:
        a, b, own = f"a_{self.root.name}", f"b_{self.root.name}", self.batched
        k, n = ("-2", "-1") if not self.root.attrs["turned"] else ("-1", "-2")
        sizes = {"M": f"{a}.shape[-2]", "N": f"{b}.shape[{n}]", "K": f"{a}.shape[-1]"}
        sizes |= {
            "sam": f"{a}.stride(-2)",
            "sak": f"{a}.stride(-1)",
            "sbk": f"{b}.stride({k})",
            "sbn": f"{b}.stride({n})",
        }
        return sizes | ({"saz": f"{a}.stride(0)", "sbz": f"{b}.stride(0)"} if own else {})

    def _launch(self, name: str, sizes: dict[str, str], arguments: Arguments, out: list[str], tiles: str) -> list[str]:
        plan, own = self.plan, self.root.name
        m, n = sizes["M"], sizes["N"]
        extra = [*out, *sizes.values(), f"BIG=({m} * max({n}, {sizes['K']})) >= 2**31 or b_{own}.numel() >= 2**31"]
        if plan.tune == "auto":
            grid = f'lambda meta: ({tiles}triton.cdiv({m}, meta["BM"]) * triton.cdiv({n}, meta["BN"]),)'
        else:
            grid = f"({tiles}triton.cdiv({m}, {plan.bm}) * triton.cdiv({n}, {plan.bn}),)"
            extra += [f"BM={plan.bm}", f"BN={plan.bn}", f"BK={plan.bk}", f"GROUP={plan.group}"]
            extra += [f"num_warps={plan.dot_warps}", f"num_stages={plan.dot_stages}"]
        lines = call(name, grid, arguments, extra, self.names)
        return [lines[0], f"    a_{own},", f"    b_{own},", *lines[1:]]

    def _configs(self) -> list[str] | None:
        plan = self.plan
        if plan.tune != "auto":
            return None
        shapes = [(plan.bm, plan.bn), (plan.bm, max(16, plan.bn // 2)), (max(16, plan.bm // 2), plan.bn), (64, 64)]
        out = []
        for at, (bm, bn) in enumerate(shapes):
            warps = plan.dot_warps if at == 0 else max(2, min(8, bm * bn // 1024))
            sizes = f'"BM": {bm}, "BN": {bn}, "BK": {plan.bk}, "GROUP": {plan.group}'
            out.append(f"triton.Config({{{sizes}}}, num_warps={warps}, num_stages={plan.dot_stages})")
        return list(dict.fromkeys(out))

    # kernel side

    def _steps(self, start: str, stop: str) -> list[str]:
        """The walk over K into `acc`."""
        return [
            f"for start in range({start}, {stop}, BK):",
            "    at_k = start + tl.arange(0, BK)",
            "    a = tl.load(a_ptr + at_m[:, None] * sam + at_k[None, :] * sak,",
            "                mask=(at_m[:, None] < M) & (at_k[None, :] < K), other=0.0)",
            "    b = tl.load(b_ptr + at_k[:, None] * sbk + at_n[None, :] * sbn,",
            "                mask=(at_k[:, None] < K) & (at_n[None, :] < N), other=0.0)",
            f'    acc = tl.dot(a, b, acc, input_precision="{self.plan.precision}")',
        ]

    def _head(self) -> list[str]:
        batch = [
            "per = tl.cdiv(M, BM) * tl.cdiv(N, BN)",
            "batch = (tile // per).to(tl.int64)",
            "tile = tile % per",
            "a_ptr += batch * saz",
            "b_ptr += batch * sbz",
        ]
        return [*(batch if self.batched else []), *ORDER, "acc = tl.zeros([BM, BN], tl.float32)"]

    def _rows(self) -> str:
        return "rows = (batch * M + at_m)[:, None]" if self.batched else "rows = at_m[:, None]"

    def _parameters(self, between: list[str], sizes: dict[str, str]) -> list[str]:
        constants = [f"{key}: tl.constexpr" for key in ("BIG", "BM", "BN", "BK", "GROUP")]
        return ["a_ptr", "b_ptr", *between, *sizes, *constants]

    def _whole(self) -> Written:
        sizes = self._sizes()
        body = [
            "tile = tl.program_id(0)",
            *self._head(),
            *self._steps("0", "K"),
            self._rows(),
            *EPILOGUE,
            *self.tile.lines,
        ]
        parameters = self._parameters(self.arguments.parameters(), sizes)
        kernel = function(self.name, parameters, body, note="A product and its tail.", configs=self._configs())
        batch = f"a_{self.root.name}.shape[0] * " if self.batched else ""
        return Written(kernel, [*self._views(), *self._launch(self.name, sizes, self.arguments, [], batch)])

    def _split(self) -> Written:
        """Partial sums per slice of K, then one kernel that adds the slices and applies the tail."""
        own, split, sizes = self.root.name, self.plan.split_k, self._sizes()
        body = [
            "tile = tl.program_id(0)",
            f"piece = tile % {split}",
            f"tile = tile // {split}",
            *self._head(),
            f"length = tl.cdiv(tl.cdiv(K, BK), {split}) * BK",
            *self._steps("piece * length", "min(K, (piece + 1) * length)"),
            self._rows(),
            *EPILOGUE,
            "tl.store(part_ptr + piece.to(tl.int64) * total + lin, acc, mask=ok)",
        ]
        parameters = self._parameters(["part_ptr", "total"], sizes)
        first = function(f"{self.name}_parts", parameters, body, note="Partial products.", configs=self._configs())
        count = product(self.root.sym)
        batch = f"{split} * a_{own}.shape[0] * " if self.batched else f"{split} * "
        out = [f"part_{own}", count]
        launch = [
            *self._views(),
            f"part_{own} = torch.empty(({split}, {count}), dtype=torch.float32, device=a_{own}.device)",
            *self._launch(f"{self.name}_parts", sizes, Arguments(), out, batch),
        ]
        second, finish = self._finish(count)
        return Written(f"{first}\n\n{second}", [*launch, *finish])

    def _finish(self, count: str) -> tuple[str, list[str]]:
        rows, columns = product(self.root.sym[:-1]), self.root.sym[-1]
        width = min(128, self.plan.bn * 2)
        high = max(1, 1024 // width)
        body = [
            "tile = tl.program_id(0)",
            "strips = tl.cdiv(N, COLS)",
            "at_m = (tile // strips).to(tl.int64) * ROWS + tl.arange(0, ROWS)",
            "at_n = (tile % strips) * COLS + tl.arange(0, COLS)",
            "rows = at_m[:, None]",
            *EPILOGUE,
            "acc = tl.zeros([ROWS, COLS], tl.float32)",
            f"for piece in range({self.plan.split_k}):",
            "    acc += tl.load(part_ptr + piece * total + lin, mask=ok, other=0.0)",
            *self.tile.lines,
        ]
        constants = ["ROWS: tl.constexpr", "COLS: tl.constexpr"]
        parameters = ["part_ptr", *self.arguments.parameters(), "total", "M", "N", *constants]
        kernel = function(self.name, parameters, body, note="Sums the partial products and applies the tail.")
        extra = [count, rows, columns, f"ROWS={high}", f"COLS={width}", "num_warps=4"]
        grid = f"(triton.cdiv({rows}, {high}) * triton.cdiv({columns}, {width}),)"
        lines = call(self.name, grid, self.arguments, extra, self.names)
        return kernel, [lines[0], f"    part_{self.root.name},", *lines[1:]]


def write_attention(layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> Written:
    """The kernel for an attention primitive; its chain of score operations is written by the same tile writer."""
    prim = layout.program.prims[layout.groups[at].members[0]]
    return _Attention(layout, prim, plan, name, names).write()


class _Attention:
    def __init__(self, layout: Layout, prim: Prim, plan: Plan, name: str, names: dict[str, str]) -> None:
        self.prim, self.plan, self.name, self.names = prim, plan, name, names
        self.scores: Prim = prim.attrs["scores"]
        self.chain: tuple[Prim, ...] = prim.attrs["chain"]
        self.arguments = Arguments()
        group = Group("scores", self.scores)
        prims = dict(layout.program.prims)
        for item in (self.scores, *self.chain):
            group.add(item, "full")
            prims[item.name] = item
        program = Program(prims, layout.program.result, layout.program.arguments)
        whole = dataclasses.replace(layout, program=program)
        self.tile = Tile(whole, group, self.arguments, Axes(columns=self.scores.shape[-1]))
        self.tile.outer[self.scores.name] = Operand("s", "float")

    def write(self) -> Written:
        last = self.chain[-1].name if self.chain else self.scores.name
        score = self.tile.member(last).text
        self.arguments.output(self.prim)
        sizes = self._sizes()
        constants = [
            "BIG: tl.constexpr",
            "BQ: tl.constexpr",
            "BS: tl.constexpr",
            "DQ: tl.constexpr",
            "DV: tl.constexpr",
        ]
        parameters = ["q_ptr", "k_ptr", "v_ptr", *self.arguments.parameters(), *sizes, *constants]
        kernel = function(self.name, parameters, self._body(score), note="Attention with an online softmax.")
        return Written(kernel, [*self._views(), *self._launch(sizes)])

    # host side

    def _views(self) -> list[str]:
        """q, k and v with exactly four dimensions; keys stand as (.., head, key)."""
        lines = []
        rank = len(self.prim.shape)
        for letter, ref in zip("qkv", self.prim.args[:3], strict=True):
            text = self.names[ref.name]
            if letter == "k" and self.prim.op == "sdpa":
                text += ".transpose(-2, -1)"
            if rank < 4:
                text += f"[{', '.join(['None'] * (4 - rank))}]"
            elif rank > 4:
                text += ".flatten(0, -4)"
            lines.append(f"{letter}_{self.prim.name} = {text}")
        return lines

    def _sizes(self) -> dict[str, str]:
        q, k, v = (f"{letter}_{self.prim.name}" for letter in "qkv")
        sizes = {"H": f"{q}.shape[1]", "T": f"{q}.shape[2]", "S": f"{k}.shape[3]"}
        sizes |= {"D": f"{q}.shape[3]", "E": f"{v}.shape[3]"}
        for letter, text in zip("qkv", (q, k, v), strict=True):
            sizes |= {f"s{letter}{axis}": f"{text}.stride({axis})" for axis in range(4)}
        return sizes

    def _launch(self, sizes: dict[str, str]) -> list[str]:
        plan, own = self.plan, self.prim.name
        extra = [
            *sizes.values(),
            f"BIG=q_{own}.shape[0] * {sizes['H']} * {sizes['T']} * max({sizes['S']}, {sizes['E']}) >= 2**31",
            f"BQ={plan.bq}",
            f"BS={plan.bs}",
            f"DQ=max(16, triton.next_power_of_2({sizes['D']}))",
            f"DV=max(16, triton.next_power_of_2({sizes['E']}))",
            f"num_warps={plan.att_warps}",
            f"num_stages={plan.att_stages}",
        ]
        grid = f"(q_{own}.shape[0] * {sizes['H']} * triton.cdiv({sizes['T']}, {plan.bq}),)"
        lines = call(self.name, grid, self.arguments, extra, self.names)
        return [lines[0], *(f"    {letter}_{own}," for letter in "qkv"), *lines[1:]]

    # kernel side

    def _body(self, score: str) -> list[str]:
        precision = self.plan.precision
        return [
            "blocks = tl.cdiv(T, BQ)",
            "z = (tl.program_id(0) // blocks).to(tl.int64)",
            "at_t = (tl.program_id(0) % blocks) * BQ + tl.arange(0, BQ)",
            "at_d = tl.arange(0, DQ)",
            "at_e = tl.arange(0, DV)",
            "q_ptr += (z // H) * sq0 + (z % H) * sq1",
            "k_ptr += (z // H) * sk0 + (z % H) * sk1",
            "v_ptr += (z // H) * sv0 + (z % H) * sv1",
            "rows = z * T + at_t[:, None]",
            "if not BIG:",
            "    rows = rows.to(tl.int32)",
            "row_ok = at_t[:, None] < T",
            "q = tl.load(q_ptr + at_t[:, None] * sq2 + at_d[None, :] * sq3,",
            "            mask=row_ok & (at_d[None, :] < D), other=0.0)",
            'top = tl.full([BQ, 1], -float("inf"), tl.float32)',
            "total = tl.zeros([BQ, 1], tl.float32)",
            "acc = tl.zeros([BQ, DV], tl.float32)",
            *self._stop(),
            "for start in range(0, stop, BS):",
            "    at_s = start + tl.arange(0, BS)",
            "    cols = at_s[None, :]",
            "    col_ok = cols < S",
            "    ok = row_ok & col_ok",
            "    lin = rows * S + cols",
            "    k = tl.load(k_ptr + at_d[:, None] * sk2 + cols * sk3, mask=(at_d[:, None] < D) & col_ok, other=0.0)",
            f'    s = tl.dot(q, k, input_precision="{precision}")',
            *("    " + line for line in self.tile.lines),
            f'    s = tl.where({self._seen()}, {score}, -float("inf"))',
            "    peak = tl.maximum(top, tl.max(s, axis=1, keep_dims=True))",
            '    base = tl.where(peak == -float("inf"), 0.0, peak)',
            "    p = tl.exp(s - base)",
            "    fade = tl.exp(top - base)",
            "    total = total * fade + tl.sum(p, axis=1, keep_dims=True)",
            "    v = tl.load(v_ptr + at_s[:, None] * sv2 + at_e[None, :] * sv3,",
            "                mask=(at_s[:, None] < S) & (at_e[None, :] < E), other=0.0)",
            f'    acc = tl.dot(p.to(v.dtype), v, acc * fade, input_precision="{precision}")',
            "    top = peak",
            *(["total = tl.where(total == 0.0, 1.0, total)"] if self.prim.attrs["safe"] else []),
            f"out = {self.arguments.output(self.prim)} + rows.to(tl.int64) * E + at_e[None, :]",
            "tl.store(out, acc / total, mask=row_ok & (at_e[None, :] < E))",
        ]

    def _stop(self) -> list[str]:
        if not self.prim.attrs["causal"]:
            return ["stop = S"]
        return ["stop = min(S, (tl.program_id(0) % blocks) * BQ + BQ)"]

    def _seen(self) -> str:
        return "ok & (cols <= at_t[:, None])" if self.prim.attrs["causal"] else "ok"
