"""The candidate module: forward, with the kernels it launches, and what it keeps of the reference."""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass
from typing import Any, TypeVar

from judge.values.parsing import parse_module
from search.proposers.builtin.kernels import allocate, device_functions
from search.proposers.builtin.lowering import DEVICE_MARK
from search.proposers.builtin.plans import Group, Layout, Plan, fuse
from search.proposers.builtin.products import Attention, Matmul
from search.proposers.builtin.program import Prim, Program, Ref, Unsupported, match_attention
from search.proposers.builtin.rows import Pointwise, Reduction

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
    return dataclasses.replace(program, prims=prims)


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
        names = [self.text(arg.name) for arg in prim.args if isinstance(arg, Ref)]
        if prim.kind == "torch":
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
        reads = self.layout.reads(group)
        for name in reads:
            if name not in self.dense and name not in self._by_stride(group):
                self._make_dense(name)
        names = {name: self.dense.get(name, self.text(name)) for name in reads}
        label = f"_kernel{len(self.kernels)}"
        rows = Pointwise if group.span is None else Reduction
        kind: Any = {"rows": rows, "matmul": Matmul, "attention": Attention}[group.kind]
        stored = self.layout.stored(at)
        like = self.text(next(iter(reads)))
        written = kind(self.layout, at, self.plan, label, names).write()
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


FACTORIES = frozenset({"get_inputs", "get_init_inputs", "get_cases"})
WANTED_IMPORTS = ("import torch", "import triton", "import triton.language as tl")


class Reference:
    """The reference module, parsed. Raises Unsupported when it has no usable `class Model`."""

    def __init__(self, source: str) -> None:
        try:
            self.tree = parse_module(source)
        except (SyntaxError, ValueError) as error:
            raise Unsupported(f"the problem's source does not parse: {error}") from error
        self.model = _defined(ast.ClassDef, "Model", self.tree.body, "the problem's source has no class Model")
        missing = "class Model defines no forward of its own"
        self.forward = _defined(ast.FunctionDef, "forward", self.model.body, missing)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of forward's positional parameters, without self."""
        spec = self.forward.args
        return tuple(arg.arg for arg in [*spec.posonlyargs, *spec.args][1:])

    @property
    def returned(self) -> ast.expr | None:
        """The expression forward returns last (a trace cannot tell a list from a tuple)."""
        ends = [node.value for node in ast.walk(self.forward) if isinstance(node, ast.Return)]
        return ends[-1] if ends else None

    def candidate(self, body: Body, plan: Plan, notes: tuple[str, ...]) -> str:
        """The whole candidate module."""
        cls = self._new_class(body)
        kept = self._needed(cls)
        kernels = "\n\n".join(body.kernels)
        functions = device_functions(kernels)
        imports, rest = self._split(kept)
        text = [plan.line(), *(f"# {note}" for note in notes), *imports, "", ""]
        text += [item.rstrip() + "\n\n" for item in [*functions, *body.kernels]]
        text += [item + "\n\n" for item in rest]
        text.append(ast.unparse(cls))
        return "\n".join(text) + "\n"

    def _new_class(self, body: Body) -> ast.ClassDef:
        cls = ast.parse(ast.unparse(self.model)).body[0]
        assert isinstance(cls, ast.ClassDef)
        cls.name = "ModelNew"
        cls.body = self._methods(cls)
        forward = _defined(ast.FunctionDef, "forward", cls.body, "")
        forward.body, forward.decorator_list = ast.parse("\n".join(body.lines)).body, []
        _Renamed().visit(cls)
        return ast.fix_missing_locations(cls)

    def _methods(self, cls: ast.ClassDef) -> list[ast.stmt]:
        """Statements of the class body that the constructor needs, and forward."""
        named = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}
        wanted, queue = {"forward"}, [name for name in named if name != "forward" and name.startswith("__")]
        while queue:
            name = queue.pop()
            wanted.add(name)
            used = {item.attr for item in ast.walk(named[name]) if isinstance(item, ast.Attribute)}
            queue += [other for other in used & set(named) if other not in wanted]

        def is_text(node: ast.stmt) -> bool:
            return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)

        kept = (node for node in cls.body if not isinstance(node, ast.FunctionDef) or node.name in wanted)
        return [node for node in kept if not is_text(node)]

    def _needed(self, cls: ast.ClassDef) -> list[ast.stmt]:
        """Top-level statements the new class needs, found by the names it uses, transitively."""
        needed: set[int] = set()
        queue: list[ast.AST] = [cls]
        while queue:
            used = {item.id for item in ast.walk(queue.pop()) if isinstance(item, ast.Name)}
            for at, node in enumerate(self.tree.body):
                if at not in needed and node is not self.model and _defines(node) & used:
                    needed.add(at)
                    queue.append(node)
        return [node for at, node in enumerate(self.tree.body) if at in needed or _star_import(node)]

    def _split(self, kept: list[ast.stmt]) -> tuple[list[str], list[str]]:
        imports = [ast.unparse(node) for node in kept if isinstance(node, ast.Import | ast.ImportFrom)]
        imports = [text for text in imports if "__future__" not in text]
        rest = [ast.unparse(node) for node in kept if not isinstance(node, ast.Import | ast.ImportFrom)]
        return list(dict.fromkeys([*imports, *WANTED_IMPORTS])), rest


D = TypeVar("D", ast.ClassDef, ast.FunctionDef)


def _defined(kind: type[D], name: str, body: list[ast.stmt], missing: str) -> D:
    """The first definition of that name. Raises Unsupported with what is `missing`."""
    found = next((node for node in body if isinstance(node, kind) and node.name == name), None)
    if found is None:
        raise Unsupported(missing)
    return found


class _Renamed(ast.NodeTransformer):
    """`super(Model, self)` and other mentions of the old class name."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            node.args = []
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == "Model":
            node.id = "ModelNew"
        return node


def _star_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)


def _defines(node: ast.stmt) -> set[str]:
    """Names a top-level statement brings; none for the factories, which a candidate does not carry."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name} - FACTORIES
    if isinstance(node, ast.Assign):
        return {item.id for target in node.targets for item in ast.walk(target) if isinstance(item, ast.Name)}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return set()
