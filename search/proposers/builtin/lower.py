"""OpGraph -> Program: decomposes what can be fused and leaves the rest as torch calls."""

from __future__ import annotations

from typing import Any

from judge.values.graph import OpGraph, OpNode, TensorInfo
from search.proposers.builtin import lower_products, lower_reductions
from search.proposers.builtin.builder import Builder
from search.proposers.builtin.ir import Prim, Program, Ref, Unsupported
from search.proposers.builtin.lower_pointwise import HANDLERS

assert lower_products and lower_reductions  # they register their handlers on import

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
    program = Program(builder.prims, result, arguments, tuple(dict.fromkeys(builder.opaque)))
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
        return _pick(builder, node, args[0], args[1])
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


def _pick(builder: Builder, node: OpNode, whole: Any, index: int) -> Any:
    if isinstance(whole, tuple | list):
        return whole[index]
    return builder.torch(f"{{0}}[{index}]", whole)


def _call(builder: Builder, node: OpNode, base: str, args: list[Any], named: dict[str, Any]) -> Prim:
    """The operator as a torch call, sizes as traced."""
    if not node.op.startswith("aten."):
        raise Unsupported(f"operator {node.op}")
    operands: list[Prim] = []
    texts = [_text(item, operands) for item in args]
    texts += [f"{key}={_text(item, operands)}" for key, item in named.items()]
    builder.opaque.append(base)
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
    prims = {name: prim for name, prim in program.prims.items() if name in alive}
    return Program(prims, program.result, program.arguments, program.notes)
