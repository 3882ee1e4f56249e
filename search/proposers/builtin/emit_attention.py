"""Attention as one kernel: blocks of queries walk over the keys with an online softmax; scores never reach memory."""

from __future__ import annotations

import dataclasses

from search.proposers.builtin.elementwise import Operand
from search.proposers.builtin.fuse import Group, Layout
from search.proposers.builtin.ir import Prim, Program
from search.proposers.builtin.kernel import Arguments, Axes, Tile
from search.proposers.builtin.plans import Plan
from search.proposers.builtin.written import Written, call, function


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
