"""Which primitives share a kernel. Groups are numbered so that every edge leads to the same or a later group."""

from __future__ import annotations

from dataclasses import dataclass, field

from search.proposers.builtin.ir import Prim, Program, Ref, Shape, Span, span


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


def fuse(program: Program, *, fusion: str, dot: bool, flash: bool) -> Layout:
    """`fusion`: "full", "reduce" (kernels end where a reduction's result spreads again) or "node" (one per operator).

    `dot`: matmuls become kernels with their tails; otherwise torch multiplies. `flash`: attention likewise.
    """
    return _Fuser(program, fusion, dot, flash).run()


class _Fuser:
    def __init__(self, program: Program, fusion: str, dot: bool, flash: bool) -> None:
        self.program, self.fusion, self.dot, self.flash = program, fusion, dot, flash
        self.groups: list[Group] = []
        self.place: dict[str, int] = {}
        self.floating = _floating(program)

    def run(self) -> Layout:
        for prim in self.program.prims.values():
            if prim.kind != "source" and prim.name not in self.floating:
                self._put(prim)
        return Layout(self.program, tuple(self.groups), self.floating)

    def _put(self, prim: Prim) -> None:
        if prim.kind in {"point", "reduce", "reshape"}:
            for at in self._candidates(prim):
                scope = self._scope(self.groups[at], prim)
                if scope is not None:
                    self._join(at, prim, scope)
                    return
        self._open(prim)

    def _open(self, prim: Prim) -> None:
        kind = {"matmul": "matmul" if self.dot else "host", "attention": "attention" if self.flash else "host"}.get(
            prim.kind, "rows" if prim.kind in {"point", "reduce"} else "host"
        )
        base = prim
        if prim.kind == "reduce":
            base = self._operand(prim)
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
