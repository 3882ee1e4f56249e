"""The space of kernels: a plan is one point of it, structure plus sizes; and which primitives share a kernel."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from dataclasses import dataclass, field
from typing import Any

from search.proposers.builtin.program import FLOATS, Prim, Program, Ref, Shape, Span, match_attention, span

MARK = "# plan: "


def _structure(*values: Any, default: Any = None) -> Any:
    """A field of structure, its values in order of preference; the first is the default unless another is named."""
    return field(default=values[0] if default is None else default, metadata={"structure": values})


def _size(default: Any, *values: Any) -> Any:
    """A size or hint with the values to try."""
    return field(default=default, metadata={"size": values})


@dataclass(frozen=True)
class Plan:
    """Structure first; everything after `tune` is a size or a hint."""

    fusion: str = _structure("full", "reduce", "node")  # reduce: kernels end at reductions; node: one per operator
    matmul: str = _structure("torch", "dot")  # dot: a kernel with the tail in its epilogue
    attention: str = _structure("flash", "parts")  # parts: torch computes it
    reduce: str = _structure("once", "loop")  # once: a row in registers; loop: a row walked in blocks
    layout: str = _structure("rows", "flat", default="flat")  # flat ranges, or tiles of rows and columns
    grid: str = _structure("block", "stride")  # block: one tile per program; stride: a resident grid walks the tiles
    bias: str = _structure("tail", "torch")  # of a linear layer: in the fused tail, or in the product
    precision: str = _structure("tf32x3", "ieee", default="ieee")
    split_k: int = _structure(1, 4)
    tune: str = _structure("fixed", "auto")  # auto: a short list timed on first use
    block: int = _size(1024, 256, 512, 1024, 2048, 4096, 8192)
    warps: int = _size(4, 1, 2, 4, 8, 16)
    rows: int = _size(1, 1, 2, 4, 8, 16)
    row_warps: int = _size(4, 1, 2, 4, 8, 16)
    loop_block: int = _size(1024, 256, 512, 1024, 2048, 4096, 8192)
    stages: int = _size(2, 1, 2, 3, 4)
    waves: int = _size(8, 2, 4, 8, 16, 32)
    evict: str = _size("", "", "evict_first", "evict_last")
    bm: int = _size(64, 16, 32, 64, 128, 256)
    bn: int = _size(64, 16, 32, 64, 128, 256)
    bk: int = _size(32, 16, 32, 64, 128)
    group: int = _size(8, 1, 4, 8, 16)
    dot_warps: int = _size(4, 2, 4, 8)
    dot_stages: int = _size(3, 1, 2, 3, 4, 5)
    bq: int = _size(64, 16, 32, 64, 128)
    bs: int = _size(32, 16, 32, 64, 128)
    att_warps: int = _size(4, 2, 4, 8)
    att_stages: int = _size(2, 1, 2, 3)

    def line(self) -> str:
        """The comment that carries the plan, so that a later step can read it back."""
        return MARK + json.dumps(dataclasses.asdict(self), sort_keys=True)


def _values(kind: str) -> dict[str, tuple[Any, ...]]:
    return {one.name: one.metadata[kind] for one in dataclasses.fields(Plan) if kind in one.metadata}


STRUCTURE, SIZES = _values("structure"), _values("size")  # field -> values


@dataclass(frozen=True)
class Traits:
    """What a program contains, which decides the fields of a plan that change its text."""

    point: bool
    reduction: bool
    several: bool  # more than one fusible operator
    broadcast: bool
    matmul: bool
    bias: bool
    attention: bool
    fp32: bool
    row: int  # longest traced reduction
    rows: int
    inner: int  # traced K of the largest matmul
    largest: int  # elements of the largest value
    flashed: Traits | None = None  # the same with explicit attention taken out, when there is any


def traits(program: Program) -> Traits:
    """Reads the traits off a program."""
    matched = match_attention(program)
    explicit = any(prim.op == "explicit" for prim in matched.prims.values())
    return dataclasses.replace(_traits(program, explicit), flashed=_traits(matched, explicit) if explicit else None)


def _traits(program: Program, explicit: bool) -> Traits:
    prims = list(program.prims.values())
    points = [p for p in prims if p.kind == "point"]
    reductions = [p for p in prims if p.kind == "reduce"]
    products = [p for p in prims if p.kind == "matmul"]
    views = [v for p in reductions if (v := span(program.prims[p.refs()[0]], p.attrs["dims"])) is not None]
    fusible = {p.attrs.get("node") for p in [*points, *reductions]}
    return Traits(
        point=bool(points),
        reduction=bool(reductions),
        several=len(fusible) > 1,
        broadcast=any(1 < program.prims[name].numel < p.numel for p in points for name in p.refs()),
        matmul=bool(products),
        bias=any(p.op == "add" and {program.prims[n].kind for n in p.refs()} == {"matmul", "source"} for p in points),
        attention=explicit or any(p.kind == "attention" for p in prims),
        fp32=any(p.dtype == "float32" for p in [*products, *(p for p in prims if p.kind == "attention")]),
        row=max((view.key[1] for view in views), default=0),
        rows=max((view.key[0] * view.key[2] for view in views), default=0),
        inner=max((program.prims[p.refs()[0]].shape[-1] for p in products), default=0),
        largest=max((p.numel for p in prims if p.dtype in FLOATS), default=0),
    )


def relevant(found: Traits, plan: Plan) -> dict[str, bool]:
    """For every field, whether it changes the text of this program's candidate under this plan."""
    attention = found.attention
    if plan.attention == "flash" and found.flashed is not None:
        found = found.flashed
    kernels = found.point or found.reduction
    flat = found.point and (not found.reduction or plan.fusion != "full" or found.several)
    dot, flash = found.matmul and plan.matmul == "dot", attention and plan.attention == "flash"
    fixed = plan.tune == "fixed"
    return {
        "fusion": kernels and found.several,
        "matmul": found.matmul,
        "attention": attention,
        "reduce": found.reduction and found.row <= 16384,
        "layout": found.broadcast and flat,
        "grid": kernels,
        "bias": found.bias and not dot,
        "split_k": dot and found.inner >= 64,
        "tune": kernels or dot,
        "block": flat,
        "warps": flat,
        "rows": found.reduction,
        "row_warps": found.reduction,
        "loop_block": found.reduction and plan.reduce == "loop",
        "stages": found.reduction and plan.reduce == "loop" and fixed,
        "waves": kernels and plan.grid == "stride",
        "evict": kernels,
        **dict.fromkeys(("bm", "bn", "bk", "group", "dot_warps", "dot_stages"), dot),
        "precision": (dot or flash) and found.fp32,
        **dict.fromkeys(("bq", "bs", "att_warps", "att_stages"), flash),
    }


def starting(found: Traits, **structure: Any) -> Plan:
    """Sizes that suit the traced shapes: 4 to 8 KiB per program, whole warps of 16-byte loads."""
    width = 1 << max(0, found.row - 1).bit_length()
    rows = 1
    while rows < 16 and rows * 2 * width <= 1024 and rows * 64 <= max(found.rows, 1):
        rows *= 2
    tile = rows * width
    big = found.largest >= 1 << 22
    plan = Plan(
        block=2048 if big else 1024,
        warps=8 if big else 4,
        rows=rows,
        row_warps=4 if tile <= 2048 else 8 if tile <= 8192 else 16,
        loop_block=max(256, min(4096, width)),
        bm=128 if found.inner >= 256 and big else 32 if found.largest < 1 << 14 else 64,
        bn=128 if found.inner >= 256 and big else 32 if found.largest < 1 << 14 else 64,
        bk=32 if found.fp32 else 64,
        dot_warps=8 if found.inner >= 256 and big else 4,
        reduce="loop" if found.row > 16384 else "once",
        layout="rows" if found.broadcast else "flat",
    )
    return dataclasses.replace(plan, **structure)


def structures(found: Traits) -> list[Plan]:
    """Every structure that differs in text, best guesses first (fewest departures from the preferred values)."""
    axes = []
    for name, values in STRUCTURE.items():
        usable = any(
            relevant(found, starting(found, matmul=m, attention=a))[name]
            for m in STRUCTURE["matmul"]
            for a in STRUCTURE["attention"]
        )
        axes.append([(name, value, rank) for rank, value in enumerate(values)] if usable else [])
    default = starting(found)
    chosen: dict[tuple[Any, ...], tuple[int, Plan]] = {}
    for combination in itertools.product(*(axis for axis in axes if axis)):
        plan = dataclasses.replace(default, **{name: value for name, value, _ in combination})
        kept = relevant(found, plan)
        fields = {name: value if kept[name] else getattr(default, name) for name, value, _ in combination}
        rank = sum(rank * WEIGHT.get(name, 1) for name, _, rank in combination if kept[name])
        key = tuple(fields.items())
        if key not in chosen or rank < chosen[key][0]:
            chosen[key] = (rank, dataclasses.replace(plan, **fields))
    return [plan for _, plan in sorted(chosen.values(), key=lambda item: item[0])]


WEIGHT = {"fusion": 3, "attention": 2, "split_k": 2}


def neighbours(found: Traits, plan: Plan, rng: random.Random) -> list[Plan]:
    """Plans that differ from `plan` in exactly one size or hint, nearest values first on each axis, axes shuffled."""
    kept = relevant(found, plan)
    near: list[Plan] = []
    far: list[Plan] = []
    for name, values in SIZES.items():
        if not kept[name]:
            continue
        now = getattr(plan, name)
        at = values.index(now) if now in values else 0
        for other, value in enumerate(values):
            if value != now:
                (near if abs(other - at) == 1 else far).append(dataclasses.replace(plan, **{name: value}))
    rng.shuffle(near)
    rng.shuffle(far)
    return [item for item in near + far if _fits(item)]


def shaken(found: Traits, plan: Plan, rng: random.Random) -> Plan:
    """The same structure with two or three sizes redrawn."""
    for _ in range(rng.choice((2, 3))):
        options = neighbours(found, plan, rng)
        plan = options[0] if options else plan
    return plan


def _fits(plan: Plan) -> bool:
    """Leaves out tiles that no GPU holds: accumulators beyond 64 fp32 registers per thread twice over."""
    threads = plan.dot_warps * 32
    return plan.bm * plan.bn <= 256 * threads and plan.block <= plan.warps * 32 * 64


def read_plan(source: str) -> Plan | None:
    """The plan a candidate carries, or None when it is foreign or its line was damaged."""
    for line in source.splitlines():
        if line.startswith(MARK):
            try:
                data = json.loads(line.removeprefix(MARK))
                return Plan(**data)
            except (ValueError, TypeError):
                return None
    return None


@dataclass
class Group:
    """Members of one kernel, or one host call (kind "host"). `scopes`: whether a member is per element or per row."""

    kind: str  # rows, matmul, attention, host
    base: Prim  # its shape is the domain
    members: list[str] = field(default_factory=list)
    scopes: dict[str, str] = field(default_factory=dict)  # full or row
    shapes: set[Shape] = field(default_factory=set)  # shapes of the full-scope values: same elements, same order
    span: Span | None = None
    node: str = ""

    def add(self, prim: Prim, scope: str) -> None:
        self.members.append(prim.name)
        self.scopes[prim.name] = scope
        if scope == "full":
            self.shapes.add(prim.shape)


@dataclass(frozen=True)
class Layout:
    """The groups in execution order and the small values every reader computes for itself."""

    program: Program
    groups: tuple[Group, ...]
    floating: frozenset[str]

    def stored(self, at: int) -> list[Prim]:
        """Members of a group that something outside it reads."""
        group = self.groups[at]
        wanted = set(self.program.outputs())
        users = self.program.users()
        for name in group.members:
            wanted.update(name for user in users[name] if user.name not in group.scopes)
        return [self.program.prims[name] for name in group.members if name in wanted]

    def reads(self, group: Group) -> list[str]:
        """What a group reads from outside, in order; small values that every reader computes for itself excepted."""
        found: dict[str, None] = {}

        def visit(prim: Prim) -> None:
            for name in prim.refs():
                if name in self.floating:
                    visit(self.program.prims[name])
                elif name not in group.scopes:
                    found[name] = None

        for member in group.members:
            visit(self.program.prims[member])
        return list(found)


def fuse(program: Program, *, fusion: str, dot: bool, flash: bool) -> Layout:
    """`fusion`: "full", "reduce" (kernels end where a reduction's result spreads again) or "node" (one per operator).

    `dot`: matmuls become kernels with their tails; otherwise torch multiplies. `flash`: attention likewise.
    """
    fuser = _Fuser(program, fusion, dot, flash)
    for prim in program.prims.values():
        if prim.kind != "source" and prim.name not in fuser.floating:
            fuser.put(prim)
    return Layout(program, tuple(fuser.groups), fuser.floating)


class _Fuser:
    def __init__(self, program: Program, fusion: str, dot: bool, flash: bool) -> None:
        self.program, self.fusion, self.dot, self.flash = program, fusion, dot, flash
        self.groups: list[Group] = []
        self.place: dict[str, int] = {}
        self.floating = _floating(program)

    def put(self, prim: Prim) -> None:
        if prim.kind in {"point", "reduce", "reshape"}:
            for at in self._candidates(prim):
                scope = self._scope(self.groups[at], prim)
                if scope is not None:
                    self._join(at, prim, scope)
                    return
        self._open(prim)

    def _open(self, prim: Prim) -> None:
        kinds = {"point": "rows", "reduce": "rows"}
        kinds |= ({"matmul": "matmul"} if self.dot else {}) | ({"attention": "attention"} if self.flash else {})
        kind, base = kinds.get(prim.kind, "host"), self._operand(prim) if prim.kind == "reduce" else prim
        group = Group(kind, base, shapes={base.shape}, node=prim.attrs.get("node", ""))
        self.groups.append(group)
        self._join(len(self.groups) - 1, prim, "row" if prim.kind == "reduce" else "full")

    def _join(self, at: int, prim: Prim, scope: str) -> None:
        group = self.groups[at]
        if prim.kind == "reduce" and group.span is None:
            group.span = span(self._operand(prim), prim.attrs["dims"])
        group.add(prim, scope)
        self.place[prim.name] = at

    def _operand(self, prim: Prim) -> Prim:
        ref = prim.args[0]
        assert isinstance(ref, Ref)
        return self.program.prims[ref.name]

    def _candidates(self, prim: Prim) -> list[int]:
        """Groups that may take the primitive, none of whose operands comes later: its producers' first, then those
        that read the same tensors or have the same shape (two branches that meet later cost one kernel then)."""
        reads = self._reads(prim)
        floor = max((self.place[name] for name in reads if name in self.place), default=-1)
        near = [self.place[name] for name in prim.refs() if name in self.place]
        outside = {name for name in reads if self.program.prims[name].numel > 1}
        shared = [
            at
            for at in range(max(floor, 0), len(self.groups))
            if outside & self._inputs(self.groups[at]) or self._operand_shape(prim) in self.groups[at].shapes
        ]
        found = [at for at in dict.fromkeys([*near, *shared]) if at >= floor]
        if self.fusion == "node":
            found = [at for at in found if self.groups[at].node == prim.attrs.get("node")]
        return [at for at in found if self.groups[at].kind in {"rows", "matmul"}]

    def _operand_shape(self, prim: Prim) -> Shape:
        return self._operand(prim).shape if prim.kind == "reduce" else prim.shape

    def _reads(self, prim: Prim) -> list[str]:
        names: list[str] = []
        for name in prim.refs():
            names += self._reads(self.program.prims[name]) if name in self.floating else [name]
        return names

    def _inputs(self, group: Group) -> set[str]:
        return {
            name
            for member in group.members
            for name in self.program.prims[member].refs()
            if name not in group.scopes and self.program.prims[name].shape in group.shapes
        }

    def _scope(self, group: Group, prim: Prim) -> str | None:
        if prim.kind == "reduce":
            return self._reduce_scope(group, prim)
        inside = [self.program.prims[name] for name in prim.refs() if name in group.scopes]
        if prim.kind == "reshape":
            return self._reshape_scope(group, prim)
        if prim.shape in group.shapes and all(self._fits(group, item, prim) for item in inside):
            spread = any(group.scopes[item.name] == "row" for item in inside)
            return None if spread and self.fusion == "reduce" else "full"
        rowish = inside and all(group.scopes[item.name] == "row" and item.shape == prim.shape for item in inside)
        return "row" if rowish and group.kind == "rows" else None

    def _fits(self, group: Group, item: Prim, prim: Prim) -> bool:
        """Whether an operand inside the group lines up with a full-scope result."""
        if group.scopes[item.name] == "full":
            return item.shape == prim.shape
        if len(item.shape) != len(prim.shape) or group.span is None:
            return False
        dims = [d for d, size in enumerate(item.shape) if size == 1 and prim.shape[d] != 1]
        if any(item.shape[d] != prim.shape[d] for d in range(len(prim.shape)) if d not in dims):
            return False
        view = span(prim, dims) if dims else None
        return view.key == group.span.key if view else group.span.key[1] == 1

    def _reduce_scope(self, group: Group, prim: Prim) -> str | None:
        operand = self._operand(prim)
        if group.kind != "rows" or operand.shape not in group.shapes:
            return None
        if group.scopes.get(operand.name, "full") != "full":
            return None
        view = span(operand, prim.attrs["dims"])
        if view is None or (group.span is not None and group.span.key != view.key):
            return None
        return "row"

    def _reshape_scope(self, group: Group, prim: Prim) -> str | None:
        operand = self._operand(prim)
        scope = group.scopes.get(operand.name)
        if scope == "full":
            return "full" if group.kind == "rows" else None
        return scope


def _floating(program: Program) -> frozenset[str]:
    """Small element-wise values made from sources only and read by larger element-wise values only."""
    users, outputs = program.users(), program.outputs()
    early: set[str] = set()
    for prim in program.prims.values():
        ready = all(program.prims[name].kind == "source" or name in early for name in prim.refs())
        if prim.kind == "point" and ready and prim.name not in outputs:
            early.add(prim.name)
    for prim in reversed(program.prims.values()):
        if prim.name in early and not all(
            user.kind == "point" and (user.numel > prim.numel or user.name in early) for user in users[prim.name]
        ):
            early.discard(prim.name)
    return frozenset(early)
