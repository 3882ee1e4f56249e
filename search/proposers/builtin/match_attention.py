"""Finds softmax(f(q @ k)) @ v among the primitives, f element-wise, and makes one attention primitive of it."""

from __future__ import annotations

import dataclasses
from typing import Any

from search.proposers.builtin.ir import Prim, Program, Ref

CASTS = frozenset({"float", "float16", "bfloat16", "copy"})
MAX_HEAD = 256


def match_attention(program: Program) -> Program:
    """The program with every match replaced. Values of a match that something else reads keep it from matching."""
    prims = dict(program.prims)
    users = {name: [user.name for user in found] for name, found in program.users().items()}
    for prim in program.prims.values():
        found = _Match(program, users).of(prim)
        if found is not None:
            for name in found.swallowed:
                prims.pop(name, None)
            prims[prim.name] = found.prim
    return Program(prims, program.result, program.arguments, program.notes)


@dataclasses.dataclass(frozen=True)
class Found:
    prim: Prim
    swallowed: tuple[str, ...]


class _Match:
    def __init__(self, program: Program, users: dict[str, list[str]]) -> None:
        self.prims, self.users, self.outputs = program.prims, users, program.outputs()

    def of(self, last: Prim) -> Found | None:
        """`last` must be the product with v."""
        if last.kind != "matmul" or last.attrs["turned"]:
            return None
        left, v = (self.prims[name] for name in last.refs())
        inner: list[str] = []
        while left.kind == "point" and left.op in CASTS and self._only(left.name, 1):
            inner.append(left.name)
            left = self.prims[left.refs()[0]]
        softmax = self._softmax(left)
        if softmax is None or len(v.shape) != len(last.shape):
            return None
        top, swallowed = softmax
        scores = self._scores(top)
        if scores is None:
            return None
        first, chain = scores
        if self.prims[first.refs()[0]].shape[-1] > MAX_HEAD or v.shape[-1] > MAX_HEAD:
            return None
        names = {first.name, *(prim.name for prim in chain)}
        reads = tuple(Ref(n) for prim in chain for n in prim.refs() if n not in names)
        q, k = first.args
        attrs = {"node": last.attrs["node"], "scores": first, "chain": tuple(chain), "reads": reads, "safe": False}
        attrs |= {"causal": False}
        whole = dataclasses.replace(last, kind="attention", op="explicit", args=(q, k, Ref(v.name)), attrs=attrs)
        return Found(whole, (*inner, *swallowed, *names))

    def _only(self, name: str, readers: int) -> bool:
        return len(self.users[name]) == readers and name not in self.outputs

    def _point(self, name: Any, op: str) -> Prim | None:
        prim = self.prims[name]
        return prim if prim.kind == "point" and prim.op == op else None

    def _softmax(self, div: Prim) -> tuple[Prim, tuple[str, ...]] | None:
        """The argument of a softmax over the last dimension that ends in `div`, and the primitives it is made of."""
        if div.kind != "point" or div.op != "div" or not self._only(div.name, 1) or len(div.refs()) != 2:
            return None
        raised, total = (self.prims[name] for name in div.refs())
        last = len(div.shape) - 1
        if raised.op != "exp" or total.kind != "reduce" or total.op != "sum" or total.attrs["dims"] != (last,):
            return None
        shifted = self._point(raised.refs()[0], "sub")
        if shifted is None or len(shifted.refs()) != 2 or total.refs()[0] != raised.name:
            return None
        top, peak = (self.prims[name] for name in shifted.refs())
        if peak.kind != "reduce" or peak.op != "max" or peak.refs()[0] != top.name or peak.attrs["dims"] != (last,):
            return None
        single = all(self._only(p.name, n) for p, n in ((raised, 2), (total, 1), (shifted, 1), (peak, 1), (top, 2)))
        return (top, (div.name, raised.name, total.name, shifted.name, peak.name)) if single else None

    def _scores(self, top: Prim) -> tuple[Prim, list[Prim]] | None:
        """Walks an element-wise chain back to the product q @ k; the chain comes in execution order."""
        chain: list[Prim] = []
        prim = top
        while prim.kind == "point":
            if prim is not top and not self._only(prim.name, 1):
                return None
            chain.insert(0, prim)
            inside = [name for name in prim.refs() if self._leads_to_product(name, prim)]
            if len(inside) != 1:
                return None
            prim = self.prims[inside[0]]
        readers = 2 if not chain else 1
        if (
            prim.kind != "matmul"
            or prim.attrs["turned"]
            or prim.shape != top.shape
            or not self._only(prim.name, readers)
        ):
            return None
        return prim, chain

    def _leads_to_product(self, name: str, user: Prim) -> bool:
        prim = self.prims[name]
        if prim.shape != user.shape:
            return False
        return prim.kind == "matmul" or (
            prim.kind == "point" and any(self._leads_to_product(n, prim) for n in prim.refs())
        )
