"""Kernels of products with their tail, and of attention."""

from __future__ import annotations

import dataclasses

from search.proposers.builtin.kernels import (
    Arguments,
    Axes,
    Operand,
    Tile,
    Written,
    call,
    config,
    function,
)
from search.proposers.builtin.plans import Group, Layout, Plan
from search.proposers.builtin.program import Prim, product
from search.proposers.builtin.rows import Kernel

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


class Matmul(Kernel):
    """The kernel or kernels for a product and its tail."""

    def __init__(self, layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> None:
        self.root: Prim = layout.program.prims[layout.groups[at].members[0]]
        super().__init__(layout, at, plan, name, names, Axes(columns=self.root.shape[-1]))
        self.left, self.right = (self.prims[ref] for ref in self.root.refs())
        self.batched = len(self.right.shape) > 2
        self.tile.outer[self.root.name] = Operand("acc", "float")
        self.store_all()

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
        a, b = f"a_{self.root.name}", f"b_{self.root.name}"
        k, n = ("-2", "-1") if not self.root.attrs["turned"] else ("-1", "-2")
        sizes = {"M": f"{a}.shape[-2]", "N": f"{b}.shape[{n}]", "K": f"{a}.shape[-1]"}
        strides = {"am": (a, "-2"), "ak": (a, "-1"), "bk": (b, k), "bn": (b, n)}
        strides |= {"az": (a, "0"), "bz": (b, "0")} if self.batched else {}
        return sizes | {f"s{axis}": f"{text}.stride({at})" for axis, (text, at) in strides.items()}

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

    def _configs(self) -> list[str]:
        plan = self.plan
        if plan.tune != "auto":
            return []
        shapes = [(plan.bm, plan.bn), (plan.bm, max(16, plan.bn // 2)), (max(16, plan.bm // 2), plan.bn), (64, 64)]
        out = []
        for at, (bm, bn) in enumerate(shapes):
            warps = plan.dot_warps if at == 0 else max(2, min(8, bm * bn // 1024))
            sizes = {"BM": bm, "BN": bn, "BK": plan.bk, "GROUP": plan.group}
            out.append(config(sizes, num_warps=warps, num_stages=plan.dot_stages))
        return out

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


class Attention:
    """The kernel for an attention primitive; its chain of score operations is written by the same tile writer."""

    def __init__(self, layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> None:
        self.prim = layout.program.prims[layout.groups[at].members[0]]
        self.plan, self.name, self.names = plan, name, names
        self.scores: Prim = self.prim.attrs["scores"]
        self.chain: tuple[Prim, ...] = self.prim.attrs["chain"]
        self.arguments = Arguments()
        group = Group("scores", self.scores)
        prims = dict(layout.program.prims)
        for item in (self.scores, *self.chain):
            group.add(item, "full")
            prims[item.name] = item
        whole = dataclasses.replace(layout, program=dataclasses.replace(layout.program, prims=prims))
        self.tile = Tile(whole, group, self.arguments, Axes(columns=self.scores.shape[-1]))
        self.tile.outer[self.scores.name] = Operand("s", "float")

    def write(self) -> Written:
        last = self.chain[-1].name if self.chain else self.scores.name
        score = self.tile.member(last).text
        self.arguments.output(self.prim)
        sizes = self._sizes()
        constants = [f"{key}: tl.constexpr" for key in ("BIG", "BQ", "BS", "DQ", "DV")]
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
        seen = "ok & (cols <= at_t[:, None])" if self.prim.attrs["causal"] else "ok"
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
            f"stop = {'min(S, (tl.program_id(0) % blocks) * BQ + BQ)' if self.prim.attrs['causal'] else 'S'}",
            "for start in range(0, stop, BS):",
            "    at_s = start + tl.arange(0, BS)",
            "    cols = at_s[None, :]",
            "    col_ok = cols < S",
            "    ok = row_ok & col_ok",
            "    lin = rows * S + cols",
            "    k = tl.load(k_ptr + at_d[:, None] * sk2 + cols * sk3, mask=(at_d[:, None] < D) & col_ok, other=0.0)",
            f'    s = tl.dot(q, k, input_precision="{precision}")',
            *("    " + line for line in self.tile.lines),
            f'    s = tl.where({seen}, {score}, -float("inf"))',
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
