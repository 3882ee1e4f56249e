"""From the traced graph to primitives: what can be fused is decomposed, the rest stays a torch call."""

from __future__ import annotations

import dataclasses
from typing import Any

from judge.values.graph import OpGraph, OpNode, TensorInfo
from search.proposers.builtin.operators import HANDLERS, handles
from search.proposers.builtin.program import FLOATS, Builder, Prim, Program, Ref, Size, Unsupported

DEVICE_MARK = "DEVICE_OF_INPUT"


def lower(graph: OpGraph, arguments: tuple[str, ...]) -> Program:
    """Primitives for the whole graph. `arguments` are the names of forward's parameters.

    Raises Unsupported when a node cannot even be called from generated code.
    """
    builder = Builder()
    result: Any = None
    for node in graph.nodes:
        builder.begin(node)
        if node.op == "output":
            result = _result(builder, node.args[0])
        elif node.op in {"input", "parameter", "buffer", "constant"}:
            builder.bind(_source(builder, node, arguments))
        else:
            builder.bind(_operator(builder, node))
    program = Program(builder.prims, result, arguments)
    _check_effects(program)
    return _without_dead(program)


def _check_effects(program: Program) -> None:
    """Fusion moves reads about, so a tensor that is changed in place may not be read by anything that can be fused."""
    users = program.users()
    for prim in program.prims.values():
        if prim.attrs.get("effect"):
            readers = [user for name in prim.refs()[:1] for user in users[name]] + users[prim.name]
            if any(user.kind != "torch" for user in readers):
                raise Unsupported(f"{prim.attrs['opaque']} changes a tensor that other operators read")


def _source(builder: Builder, node: OpNode, arguments: tuple[str, ...]) -> Any:
    if node.op == "constant" and node.args and node.args[0] is not None and not isinstance(node.args[0], list):
        return node.args[0]  # a scalar tensor: as good as a number
    text = _source_text(node, arguments)
    if node.out is None:
        if node.op == "input" and node.args and isinstance(node.args[0], bool | int | float):
            return node.args[0]
        raise Unsupported(f"{node.op} {node.target or node.name} is not a tensor")
    sym = tuple(f"{text}.shape[{axis}]" for axis in range(len(node.out.shape)))
    attrs = {"input": node.op == "input", "node": node.name}
    return builder.add(Prim(node.name, "source", text, (), node.out.shape, node.out.dtype, sym, attrs))


def _source_text(node: OpNode, arguments: tuple[str, ...]) -> str:
    if node.op == "input":
        head, *path = node.target.split(".")
        if not head.isdigit() or int(head) >= len(arguments):
            raise Unsupported(f"input {node.target!r} is no positional argument of forward")
        return arguments[int(head)] + "".join(f"[{int(p) if p.isdigit() else p!r}]" for p in path)
    if node.op == "constant":
        if node.out is None or not node.args or node.args[0] is None:
            raise Unsupported(f"the values of constant {node.target!r} are not in the graph")
        return f"torch.tensor({node.args[0]!r}, dtype=torch.{node.out.dtype}, device={DEVICE_MARK})"
    return attribute(node.target)


def attribute(target: str) -> str:
    """`self.layers[0].weight` for "layers.0.weight"."""
    text = "self"
    for part in target.split("."):
        if part.isdigit():
            text += f"[{part}]"
        elif part.isidentifier():
            text += f".{part}"
        else:
            text += f"[{part!r}]"
    return text


def _operator(builder: Builder, node: OpNode) -> Any:
    base = ".".join(node.op.split(".")[:2])
    handler = HANDLERS.get(base) or HANDLERS.get(base.rstrip("_"))
    args = [builder.read(item) for item in node.args]
    named = {key: builder.read(item) for key, item in node.kwargs.items()}
    if node.op == "getitem":
        whole, index = args
        return whole[index] if isinstance(whole, tuple | list) else builder.torch(f"{{0}}[{index}]", whole)
    if handler is not None and not _changes_source(base, args):
        before = set(builder.prims)
        try:
            value = handler(builder, node, *args, **named)
        except (Unsupported, TypeError, ValueError, AttributeError):
            for name in set(builder.prims) - before:
                del builder.prims[name]
            builder.begin(node)
        else:
            if _in_place(base) and isinstance(value, Prim):
                _rebind(builder, node, value)
            return value
    return _call(builder, node, base, args, named)


def _in_place(base: str) -> bool:
    return base.endswith("_") and not base.endswith("__")


def _changes_source(base: str, args: list[Any]) -> bool:
    """An in-place operator on an input, parameter, buffer or foreign tensor must happen in place."""
    if not _in_place(base) or not isinstance(args[0], Prim):
        return False
    if args[0].kind in {"reshape", "reduce"} or "view" in args[0].attrs:
        raise Unsupported(f"{base} on a view")
    fresh = str(args[0].attrs.get("opaque", "")).startswith("aten.conv")
    return args[0].kind not in {"point", "matmul"} and not fresh


def _rebind(builder: Builder, node: OpNode, value: Prim) -> None:
    """After an in-place operator the changed tensor's older names mean its new content."""
    changed = builder.read(node.args[0])
    for name, bound in builder.bound.items():
        if bound is changed:
            builder.bound[name] = value


def _call(builder: Builder, node: OpNode, base: str, args: list[Any], named: dict[str, Any]) -> Prim:
    """The operator as a torch call, sizes as traced."""
    if not node.op.startswith("aten."):
        raise Unsupported(f"operator {node.op}")
    operands: list[Prim] = []
    texts = [_text(item, operands) for item in args]
    texts += [f"{key}={_text(item, operands)}" for key, item in named.items()]
    like = node.out or next((item for item in node.outs if item), None) or TensorInfo((), "", ())
    attrs: dict[str, Any] = {"effect": _in_place(base), "opaque": base}
    if node.out is None:
        attrs["several"] = True
    return builder.torch(f"torch.ops.{node.op}({', '.join(texts)})", *operands, like=like, **attrs)


def _text(value: Any, operands: list[Prim]) -> str:
    if isinstance(value, Prim):
        operands.append(value)
        return f"{{{len(operands) - 1}}}"
    if isinstance(value, list):
        return f"[{', '.join(_text(item, operands) for item in value)}]"
    if isinstance(value, dict):
        if "dtype" in value:
            return f"torch.{value['dtype']}"
        text = str(value.get("repr", ""))
        if text.startswith("torch."):
            return text
        if text.split(":")[0] in {"cpu", "cuda", "meta"}:
            return DEVICE_MARK
        raise Unsupported(f"argument {text or value!r}")
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    return repr(value)


def _result(builder: Builder, value: Any) -> Any:
    """The returned structure: Refs inside tuples and dicts."""
    if isinstance(value, dict) and "dict" in value:
        return {key: _result(builder, item) for key, item in value["dict"].items()}
    if isinstance(value, list):
        return tuple(_result(builder, item) for item in value)
    item = builder.read(value)
    return Ref(item.name) if isinstance(item, Prim) else item


def _without_dead(program: Program) -> Program:
    """Drops primitives nothing reads, except calls that change something."""
    alive = set(program.outputs())
    for prim in reversed(program.prims.values()):
        if prim.name in alive or prim.attrs.get("effect"):
            alive.add(prim.name)
            alive.update(prim.refs())
    return dataclasses.replace(program, prims={name: prim for name, prim in program.prims.items() if name in alive})


def _shape_of(node: OpNode) -> tuple[int, ...]:
    if node.out is None:
        raise Unsupported(f"{node.op} has no tensor result")
    return tuple(node.out.shape)


def _product(b: Builder, node: OpNode, x: Prim, y: Prim, *, turned: bool = False) -> Prim:
    if x.dtype != y.dtype or x.dtype not in FLOATS:
        raise Unsupported(f"product of {x.dtype} and {y.dtype}")
    last = y.sym[0] if turned else y.sym[-1]
    return b.matmul(x, y, turned=turned, sym=(*x.sym[:-1], last), shape=_shape_of(node), dtype=x.dtype)


@handles("linear")
def linear(b: Builder, node: OpNode, x: Prim, weight: Prim, bias: Any = None) -> Prim:
    if len(x.shape) < 2 or len(weight.shape) != 2:
        raise Unsupported("linear of a vector")
    plain = _product(b, node, x, weight, turned=True)
    return plain if bias is None else b.result("add", plain, bias)


@handles("addmm", "baddbmm")
def addmm(b: Builder, node: OpNode, bias: Prim, x: Prim, y: Prim, beta: float = 1, alpha: float = 1) -> Prim:
    out = _product(b, node, x, y)
    if alpha != 1:
        out = b.point("mul", out, float(alpha))
    if beta != 1:
        bias = b.point("mul", bias, float(beta))
    return b.result("add", out, bias)


@handles("mm", "bmm", "matmul")
def matmul(b: Builder, node: OpNode, x: Prim, y: Prim) -> Prim:
    same_batch = len(x.shape) == len(y.shape) and x.shape[:-2] == y.shape[:-2]
    if len(x.shape) < 2 or len(y.shape) < 2 or not (same_batch or len(y.shape) == 2):
        raise Unsupported("matmul that broadcasts its batch")
    return _product(b, node, x, y)


@handles("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as")
def reshape(b: Builder, node: OpNode, x: Prim, *args: Any, **__: Any) -> Prim:
    shape = _shape_of(node)
    if node.op.startswith("aten.unsqueeze"):
        at = args[0] % len(shape)
        return b.reshape(x, shape, (*x.sym[:at], "1", *x.sym[at:]))
    if args and isinstance(args[0], Prim):
        return b.reshape(x, shape, args[0].sym)
    return b.reshape(x, shape)


@handles("alias", "detach", "lift_fresh_copy", "identity")
def same(b: Builder, node: OpNode, x: Prim, *_: Any, **__: Any) -> Prim:
    return x


@handles("contiguous")
def contiguous(b: Builder, node: OpNode, x: Prim, *_: Any, **__: Any) -> Prim:
    return b.torch("{0}.contiguous()", x) if x.kind == "torch" else x


@handles("clone")
def clone(b: Builder, node: OpNode, x: Prim, *_: Any, **__: Any) -> Prim:
    """A copy, for free inside a kernel: the result must not share memory with an input."""
    return b.result("copy", x)


@handles("expand", "expand_as", "broadcast_to")
def expand(b: Builder, node: OpNode, x: Prim, sizes: Any, **_: Any) -> Prim:
    if isinstance(sizes, Prim):
        return b.torch("{0}.expand_as({1})", x, sizes, expands=Ref(x.name))
    shape = _shape_of(node)
    new = len(shape) - len(x.shape)
    keep = [-1 if d >= new and x.shape[d - new] == size else size for d, size in enumerate(shape)]
    return b.torch(f"{{0}}.expand({', '.join(map(str, keep))})", x, expands=Ref(x.name))


@handles("transpose", "permute", "t", "select", "slice", "narrow", "unbind", "movedim")
def rearrange(b: Builder, node: OpNode, x: Prim, *args: Any, **named: Any) -> Prim:
    """Views: no copy on the host; a kernel that needs contiguous memory makes one."""
    op = node.op.split(".")[1]
    if op not in {"transpose", "permute", "t"}:
        raise Unsupported(op)
    dims = list(args[0]) if op == "permute" else list(args[:2])
    return b.torch(f"{{0}}.{op}({', '.join(map(str, dims))})", x, view=True)


@handles("scaled_dot_product_attention")
def attention(
    b: Builder,
    node: OpNode,
    q: Prim,
    k: Prim,
    v: Prim,
    mask: Any = None,
    p: float = 0.0,
    causal: bool = False,
    **named: Any,
) -> Prim:
    scale = named.get("scale")
    ranks = {len(q.shape), len(k.shape), len(v.shape)}
    if p or named.get("enable_gqa") or len(ranks) != 1 or q.shape[:-2] != k.shape[:-2] or q.dtype not in FLOATS:
        raise Unsupported("attention with dropout or grouped heads")
    if max(q.shape[-1], v.shape[-1]) > 256:
        raise Unsupported("attention with heads wider than 256")
    scores = _scores(node, q, k)
    chain = _score_chain(node, scores, q, mask, scale)
    refs = tuple(Ref(item.name) if isinstance(item, Prim) else item for item in (q, k, v, mask))
    attrs = {"causal": bool(causal), "scale": scale, "node": node.name, "scores": scores, "chain": chain, "safe": True}
    sym = (*q.sym[:-1], v.sym[-1])
    return b.add(Prim(node.name, "attention", "sdpa", refs, _shape_of(node), q.dtype, sym, attrs))


def _scores(node: OpNode, q: Prim, k: Prim) -> Prim:
    """q @ k.T as a primitive that exists only inside the attention kernel."""
    sym = (*q.sym[:-1], k.sym[-2])
    return Prim(f"{node.name}_scores", "matmul", "matmul", (), (*q.shape[:-1], k.shape[-2]), "float32", sym)


def _score_chain(node: OpNode, scores: Prim, q: Prim, mask: Any, scale: float | None) -> tuple[Prim, ...]:
    """What happens to the scores before the softmax: the scale, then a mask of either kind."""
    factor: Any = Size(f"{q.sym[-1]} ** -0.5") if scale is None else float(scale)
    chain = [_after(node, "mul", (Ref(scores.name), factor), scores, 1)]
    if isinstance(mask, Prim):
        last, other = Ref(chain[0].name), Ref(mask.name)
        op, args = ("where", (other, last, float("-inf"))) if mask.dtype == "bool" else ("add", (last, other))
        chain.append(_after(node, op, args, scores, 2))
    return tuple(chain)


def _after(node: OpNode, op: str, args: tuple[Any, ...], scores: Prim, at: int) -> Prim:
    return Prim(f"{node.name}_score{at}", "point", op, args, scores.shape, "float32", scores.sym)
