"""The candidate's text: the reference module's own source with `forward` replaced and the factories removed."""

from __future__ import annotations

import ast

from judge.values.parsing import parse_module
from search.proposers.builtin.elementwise import device_functions
from search.proposers.builtin.host import Body
from search.proposers.builtin.ir import Unsupported
from search.proposers.builtin.plans import Plan

FACTORIES = frozenset({"get_inputs", "get_init_inputs", "get_cases"})
WANTED_IMPORTS = ("import torch", "import triton", "import triton.language as tl")


class Reference:
    """The reference module, parsed. Raises Unsupported when it has no usable `class Model`."""

    def __init__(self, source: str) -> None:
        try:
            self.tree = parse_module(source)
        except (SyntaxError, ValueError) as error:
            raise Unsupported(f"the problem's source does not parse: {error}") from error
        self.model = self._class("Model")
        self.forward = self._forward()

    def _class(self, name: str) -> ast.ClassDef:
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return node
        raise Unsupported(f"the problem's source has no class {name}")

    def _forward(self) -> ast.FunctionDef:
        for node in self.model.body:
            if isinstance(node, ast.FunctionDef) and node.name == "forward":
                return node
        raise Unsupported("class Model defines no forward of its own")

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
        cls.body = [self._method(node, body) for node in self._methods(cls)]
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
        return [
            node
            for node in cls.body
            if not (isinstance(node, ast.FunctionDef) and node.name not in wanted) and not _is_text(node)
        ]

    def _method(self, node: ast.stmt, body: Body) -> ast.stmt:
        if not isinstance(node, ast.FunctionDef) or node.name != "forward":
            return node
        node.body = ast.parse("\n".join(body.lines)).body
        node.decorator_list = []
        return node

    def _needed(self, cls: ast.ClassDef) -> list[ast.stmt]:
        """Top-level statements the new class needs, found by the names it uses, transitively."""
        needed: set[int] = set()
        queue: list[ast.AST] = [cls]
        while queue:
            used = _names(queue.pop())
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


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _names(node: ast.AST) -> set[str]:
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


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
