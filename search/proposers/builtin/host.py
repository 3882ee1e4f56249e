"""The candidate's `forward`: host lines for every group in order, and the kernels they launch."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from search.proposers.builtin.emit_attention import write_attention
from search.proposers.builtin.emit_matmul import write_matmul
from search.proposers.builtin.emit_rows import write_rows
from search.proposers.builtin.fuse import Group, Layout, fuse
from search.proposers.builtin.ir import Prim, Program, Ref, Unsupported
from search.proposers.builtin.lower import DEVICE_MARK
from search.proposers.builtin.match_attention import match_attention
from search.proposers.builtin.plans import Plan
from search.proposers.builtin.written import allocate

RESIDENT = '''def _resident(tiles, waves):
    """How many programs of a resident grid to start: a few per multiprocessor, never more than there are tiles."""
    if torch.cuda.is_available():
        return min(tiles, waves * torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)
    return min(tiles, waves)
'''


@dataclass(frozen=True)
class Body:
    """Everything forward needs: module-level kernels and the lines of the method; `torch_calls` are what stayed."""

    kernels: tuple[str, ...]
    lines: tuple[str, ...]
    torch_calls: tuple[str, ...]


def write_forward(program: Program, plan: Plan, *, shown: ast.expr | None = None) -> Body:
    """Generated code for a program under a plan. Raises Unsupported when nothing can become a kernel."""
    if plan.attention == "flash":
        program = match_attention(program)
    if plan.matmul == "torch":
        program = absorb_bias(program, keep_tail=plan.bias == "tail")
    layout = fuse(program, fusion=plan.fusion, dot=plan.matmul == "dot", flash=plan.attention == "flash")
    return _Host(layout, plan, shown).write()


def absorb_bias(program: Program, *, keep_tail: bool) -> Program:
    """Gives a linear layer's bias back to torch, always when no fused tail follows that would add it for free."""
    users = program.users()
    prims = dict(program.prims)
    for prim in program.prims.values():
        bias = _bias_of(prim, prims)
        if bias is None or len(users[prim.refs()[0]]) != 1:
            continue
        followed = any(user.kind in {"point", "reduce"} for user in users[prim.name])
        if keep_tail and followed:
            continue
        product = prims.pop(prim.refs()[0])
        left, right = product.refs()
        call = "torch.nn.functional.linear({0}, {1}, {2})" if product.attrs["turned"] else "torch.addmm({2}, {0}, {1})"
        refs = (Ref(left), Ref(right), Ref(bias))
        attrs = {**prim.attrs, "opaque": "aten.linear"}
        prims[prim.name] = Prim(prim.name, "torch", call, refs, prim.shape, prim.dtype, prim.sym, attrs)
    return Program(prims, program.result, program.arguments, program.notes)


def _bias_of(prim: Prim, prims: dict[str, Prim]) -> str | None:
    """The bias in `matmul + bias` of one linear layer, else None."""
    names = prim.refs()
    if prim.kind != "point" or prim.op != "add" or len(names) != 2:
        return None
    product, bias = prims.get(names[0]), prims.get(names[1])
    if product is None or bias is None or product.kind != "matmul" or bias.kind != "source":
        return None
    same = product.attrs["node"] == prim.attrs["node"] and product.dtype == prim.dtype == bias.dtype
    flat = product.attrs["turned"] or len(product.shape) == 2
    return bias.name if same and flat and bias.shape == product.shape[-1:] else None


class _Host:
    def __init__(self, layout: Layout, plan: Plan, shown: ast.expr | None) -> None:
        self.layout, self.plan, self.shown = layout, plan, shown
        self.prims = layout.program.prims
        self.lines: list[str] = []
        self.kernels: list[str] = []
        self.dense: dict[str, str] = {}  # primitive -> host expression of its contiguous tensor
        self.torch_calls: list[str] = []
        self.device = f"{layout.program.arguments[0]}.device" if layout.program.arguments else ""

    def write(self) -> Body:
        for at, group in enumerate(self.layout.groups):
            if group.kind == "host":
                self._call(self.prims[group.members[0]])
            else:
                self._kernel(at, group)
        if not self.kernels:
            raise Unsupported("no operator of this graph can become a kernel")
        self.lines.append(f"return {self._result(self.layout.program.result, self.shown)}")
        lines = tuple(line.replace(DEVICE_MARK, self.device) for line in self.lines)
        if self.plan.grid == "stride" and any("_resident(" in line for line in lines):
            self.kernels.insert(0, RESIDENT)
        return Body(tuple(self.kernels), lines, tuple(dict.fromkeys(self.torch_calls)))

    def text(self, name: str) -> str:
        """The host expression of a value."""
        prim = self.prims[name]
        return prim.op if prim.kind == "source" else f"t_{name}"

    def _call(self, prim: Prim) -> None:
        names = [self.text(name) for name in prim.refs()] if prim.kind != "torch" else []
        if prim.kind == "torch":
            names = [self.text(arg.name) for arg in prim.args if isinstance(arg, Ref)]
            text = prim.op.format(*names)
        elif prim.kind == "reshape":
            text = f"{names[0]}.reshape({', '.join(prim.sym) if prim.sym else '()'})"
        elif prim.kind == "matmul":
            call = "torch.nn.functional.linear" if prim.attrs["turned"] else "torch.matmul"
            text = f"{call}({names[0]}, {names[1]})"
        else:
            text = self._sdpa(prim)
        if prim.kind in {"matmul", "attention"}:
            self.torch_calls.append("aten.linear" if prim.attrs.get("turned") else f"aten.{prim.op}")
        elif "opaque" in prim.attrs:
            self.torch_calls.append(str(prim.attrs["opaque"]))
        self.lines.append(f"t_{prim.name} = {text}")

    def _sdpa(self, prim: Prim) -> str:
        q, k, v, mask = (self.text(arg.name) if isinstance(arg, Ref) else "None" for arg in prim.args)
        scale = prim.attrs["scale"]
        return (
            f"torch.nn.functional.scaled_dot_product_attention({q}, {k}, {v}, attn_mask={mask}, "
            f"is_causal={prim.attrs['causal']}, scale={scale!r})"
        )

    def _kernel(self, at: int, group: Group) -> None:
        reads = self._external(group)
        for name in reads:
            if name not in self.dense and name not in self._by_stride(group):
                self._make_dense(name)
        names = {name: self.dense.get(name, self.text(name)) for name in reads}
        label = f"_kernel{len(self.kernels)}"
        write = {"rows": write_rows, "matmul": write_matmul, "attention": write_attention}[group.kind]
        stored = self.layout.stored(at)
        like = self.text(next(iter(reads)))
        written = write(self.layout, at, self.plan, label, names)
        self.lines += [*allocate(stored, like), *written.launch]
        for prim in stored:
            self.dense[prim.name] = f"t_{prim.name}"
        self.kernels.append(written.kernel)

    def _by_stride(self, group: Group) -> set[str]:
        """Operands that a kernel reads by their strides only: the factors of its product."""
        root = self.prims[group.members[0]]
        if root.kind == "matmul":
            tail = {name for member in group.members[1:] for name in self.prims[member].refs()}
            return set(root.refs()) - tail
        if root.kind == "attention":
            factors = {arg.name for arg in root.args[:3] if isinstance(arg, Ref)}
            return factors - {
                arg.name for arg in [*root.args[3:], *root.attrs.get("reads", ())] if isinstance(arg, Ref)
            }
        return set()

    def _make_dense(self, name: str) -> None:
        prim = self.prims[name]
        if prim.kind == "source" and not prim.attrs.get("input"):
            self.dense[name] = prim.op
            if not prim.op.startswith("self"):
                self.lines.append(f"t_{name} = {prim.op}")
                self.dense[name] = f"t_{name}"
            return
        own = f"c_{name}"
        self.lines.append(f"{own} = {self.text(name)}.contiguous()")
        self.dense[name] = own

    def _external(self, group: Group) -> list[str]:
        found: dict[str, None] = {}

        def visit(prim: Prim) -> None:
            for name in prim.refs():
                if name in self.layout.floating:
                    visit(self.prims[name])
                elif name not in group.scopes:
                    found[name] = None

        for member in group.members:
            visit(self.prims[member])
        return list(found)

    def _result(self, value: Any, shown: ast.expr | None) -> str:
        """Source of the returned structure; `shown`, the reference's own expression, tells lists from tuples."""
        if isinstance(value, Ref):
            return self.text(value.name)
        if isinstance(value, tuple):
            elements = shown.elts if isinstance(shown, ast.List | ast.Tuple) else []
            parts: list[ast.expr | None] = [*elements] if len(elements) == len(value) else [None] * len(value)
            inside = ", ".join(self._result(item, part) for item, part in zip(value, parts, strict=True))
            if isinstance(shown, ast.List | ast.ListComp):
                return f"[{inside}]"
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        if isinstance(value, dict):
            known = dict(zip(map(_key, shown.keys), shown.values, strict=True)) if isinstance(shown, ast.Dict) else {}
            return "{" + ", ".join(f"{k!r}: {self._result(item, known.get(k))}" for k, item in value.items()) + "}"
        return repr(value)


def _key(node: ast.expr | None) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""
