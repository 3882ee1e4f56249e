"""Kernels that reduce along one run of dimensions, with what comes before and after."""

from __future__ import annotations

from typing import Any

from search.proposers.builtin.elementwise import Operand
from search.proposers.builtin.emit_points import write_points
from search.proposers.builtin.fuse import Layout
from search.proposers.builtin.ir import Prim, product
from search.proposers.builtin.kernel import IDENTITY, Arguments, Axes, Tile
from search.proposers.builtin.plans import Plan
from search.proposers.builtin.tiling import launch_grid, note_of, power_of_two, striding
from search.proposers.builtin.written import Written, big, call, function

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
