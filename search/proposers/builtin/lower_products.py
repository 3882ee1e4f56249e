"""Matrix products, attention and the operators that only rename or rearrange elements."""

from __future__ import annotations

from typing import Any

from judge.values.graph import OpNode
from search.proposers.builtin.builder import Builder
from search.proposers.builtin.ir import FLOATS, Prim, Ref, Size, Unsupported
from search.proposers.builtin.lower_pointwise import handles, result_dtype


def _shape(node: OpNode) -> tuple[int, ...]:
    if node.out is None:
        raise Unsupported(f"{node.op} has no tensor result")
    return tuple(node.out.shape)


def _product(b: Builder, node: OpNode, x: Prim, y: Prim, *, turned: bool = False) -> Prim:
    if x.dtype != y.dtype or x.dtype not in FLOATS:
        raise Unsupported(f"product of {x.dtype} and {y.dtype}")
    last = y.sym[0] if turned else y.sym[-1]
    return b.matmul(x, y, turned=turned, sym=(*x.sym[:-1], last), shape=_shape(node), dtype=x.dtype)


@handles("linear")
def linear(b: Builder, node: OpNode, x: Prim, weight: Prim, bias: Any = None) -> Prim:
    if len(x.shape) < 2 or len(weight.shape) != 2:
        raise Unsupported("linear of a vector")
    plain = _product(b, node, x, weight, turned=True)
    return plain if bias is None else b.point("add", plain, bias, dtype=result_dtype(node))


@handles("addmm")
def addmm(b: Builder, node: OpNode, bias: Prim, x: Prim, y: Prim, beta: float = 1, alpha: float = 1) -> Prim:
    out = _product(b, node, x, y)
    if alpha != 1:
        out = b.point("mul", out, float(alpha))
    if beta != 1:
        bias = b.point("mul", bias, float(beta))
    return b.point("add", out, bias, dtype=result_dtype(node))


@handles("mm", "bmm", "matmul")
def matmul(b: Builder, node: OpNode, x: Prim, y: Prim) -> Prim:
    same_batch = len(x.shape) == len(y.shape) and x.shape[:-2] == y.shape[:-2]
    if len(x.shape) < 2 or len(y.shape) < 2 or not (same_batch or len(y.shape) == 2):
        raise Unsupported("matmul that broadcasts its batch")
    return _product(b, node, x, y)


@handles("baddbmm")
def baddbmm(b: Builder, node: OpNode, bias: Prim, x: Prim, y: Prim, beta: float = 1, alpha: float = 1) -> Prim:
    out: Prim = addmm(b, node, bias, x, y, beta, alpha)
    return out


@handles("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as")
def reshape(b: Builder, node: OpNode, x: Prim, *args: Any, **__: Any) -> Prim:
    shape = _shape(node)
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
    return b.point("copy", x, dtype=result_dtype(node))


@handles("expand", "expand_as", "broadcast_to")
def expand(b: Builder, node: OpNode, x: Prim, sizes: Any, **_: Any) -> Prim:
    if isinstance(sizes, Prim):
        return b.torch("{0}.expand_as({1})", x, sizes, expands=Ref(x.name))
    shape = _shape(node)
    new = len(shape) - len(x.shape)
    keep = [-1 if d >= new and x.shape[d - new] == size else size for d, size in enumerate(shape)]
    return b.torch(f"{{0}}.expand({', '.join(map(str, keep))})", x, expands=Ref(x.name))


@handles("transpose", "permute", "t", "select", "slice", "narrow", "unbind", "movedim")
def rearrange(b: Builder, node: OpNode, x: Prim, *args: Any, **named: Any) -> Prim:
    """Views: no copy on the host; whoever needs contiguous memory asks for it."""
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
    return b.add(Prim(node.name, "attention", "sdpa", refs, _shape(node), q.dtype, sym, attrs))


def _scores(node: OpNode, q: Prim, k: Prim) -> Prim:
    """q @ k.T as a primitive that exists only inside the attention kernel."""
    sym = (*q.sym[:-1], k.sym[-2])
    return Prim(f"{node.name}_scores", "matmul", "matmul", (), (*q.shape[:-1], k.shape[-2]), "float32", sym)


def _score_chain(node: OpNode, scores: Prim, q: Prim, mask: Any, scale: float | None) -> tuple[Prim, ...]:
    """What happens to the scores before the softmax: the scale, then a mask of either kind."""
    factor: Any = Size(f"{q.sym[-1]} ** -0.5") if scale is None else float(scale)
    chain = [_after(node, "mul", (Ref(scores.name), factor), scores, 1)]
    if isinstance(mask, Prim):
        last = Ref(chain[0].name)
        if mask.dtype == "bool":
            chain.append(_after(node, "where", (Ref(mask.name), last, float("-inf")), scores, 2))
        else:
            chain.append(_after(node, "add", (last, Ref(mask.name)), scores, 2))
    return tuple(chain)


def _after(node: OpNode, op: str, args: tuple[Any, ...], scores: Prim, at: int) -> Prim:
    return Prim(f"{node.name}_score{at}", "point", op, args, scores.shape, "float32", scores.sym)
