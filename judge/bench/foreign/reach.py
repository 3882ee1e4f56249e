"""What the text of a kernel reaches for that no kernel needs, and names that are not what they look like.

Reads the syntax tree of the text that runs; runs nothing. Standard library only. It is asked of a would-be best alone,
so that the text which people copy is one that can be read: no way into the interpreter, the judge, or other people's
objects, and no name that is put together while it runs.
"""

from __future__ import annotations

import ast
import io
import tokenize
import unicodedata
from collections.abc import Iterator

from judge.values.parsing import parsed

MOST = 8  # places that are told

# Modules that read or change the interpreter, run text, or compute on memory beside tensors; `judge` is ours.
MODULES = frozenset(
    {
        "_ctypes", "_thread", "ast", "atexit", "bdb", "builtins", "cffi", "code", "codeop", "ctypes", "ctypeslib",
        "dis", "faulthandler", "gc", "imp", "importlib", "inspect", "judge", "linecache", "llvmlite", "marshal", "mmap",
        "multiprocessing", "numba", "pdb", "pkgutil", "runpy", "signal", "subprocess", "sysconfig", "trace",
        "tracemalloc", "weakref", "zipimport",
    }
)  # fmt: skip
OF_OTHERS = frozenset({"code", "signal", "trace"})  # modules whose names are parts of torch and of tensors, too
# Parts of those that honest code uses as well.
PARTS = {
    "sys": frozenset({"stdout", "stderr", "version", "version_info", "platform", "maxsize", "float_info", "byteorder"}),
    "os": frozenset({"environ", "getenv", "cpu_count", "path", "linesep", "sep", "name"}),
    "_C": frozenset({"_cuda_getCurrentRawStream", "_cuda_getCurrentStream", "_nn"}),
}
ATTRIBUTES = frozenset(
    {
        "__base__", "__bases__", "__builtins__", "__closure__", "__code__", "__func__", "__getattribute__",
        "__globals__", "__import__", "__loader__", "__mro__", "__reduce__", "__reduce_ex__", "__self__", "__spec__",
        "__subclasses__", "__traceback__", "__wrapped__", "ag_frame", "attrgetter", "co_code", "cr_frame", "f_back",
        "f_builtins", "f_code", "f_globals", "f_locals", "gi_code", "gi_frame", "methodcaller", "tb_frame", "tb_next",
        "CodeType", "FunctionType", "FrameType", "TorchDispatchMode", "TorchFunctionMode", "_disable_current_modes",
        "_python_dispatch",
    }
)  # fmt: skip
OWN_ONLY = frozenset({"__class__", "__dict__"})  # of `self`
CALLS = frozenset({"__import__", "breakpoint", "compile", "eval", "exec", "locals", "vars", "dir"})
NAMED = {"getattr": 1, "hasattr": 1, "setattr": 1, "delattr": 1}  # argument that is a name
SWITCHES = frozenset({"backends", "config", "knobs"})  # parts of libraries whose values are there to be set
GREEK_ALIKE = frozenset("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧο")


def reached(source: str) -> list[str]:
    """What is reached for, in words with its line, MOST at the most; [] for honest text and for what is no Python."""
    tree = parsed(source)
    if tree is None:
        return []
    found = dict.fromkeys((*_disguised(source), *_Reader(tree).read()))
    return list(found)[:MOST]


def _disguised(source: str) -> Iterator[str]:
    """Names that Python reads otherwise than they are written, or people otherwise than Python; hidden marks."""
    if source.isascii():
        return
    for number, line in enumerate(source.split("\n"), 1):
        if any(not char.isascii() and unicodedata.category(char) == "Cf" for char in line):
            yield f"candidate.py:{number}: an invisible or bidirectional mark"
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME and not token.string.isascii() and _is_disguised(token.string):
                yield f"candidate.py:{token.start[0]}: the name {token.string!a}, which does not read as it looks"
    except (tokenize.TokenError, SyntaxError):  # the tokenizer is not the parser's
        return


def _is_disguised(name: str) -> bool:
    if unicodedata.normalize("NFKC", name) != name or GREEK_ALIKE & set(name):
        return True
    return any(not unicodedata.name(c, "").startswith(("LATIN", "GREEK")) for c in name if not c.isascii())


class _Reader(ast.NodeVisitor):
    """Visits one text."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        nodes = list(ast.walk(tree))
        self.found: list[str] = []
        self.bound = {node.id for node in nodes if isinstance(node, ast.Name) and not _is_read(node)}
        self.bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name}
        self.foreign = _foreign(nodes)  # names of modules, and of what is taken from them
        self.words = _words(nodes)
        self.parts = {id(n.value) for n in nodes if isinstance(n, ast.Attribute) and _is_part(n)}
        self.plain = set(_plain_globals(nodes))
        self.called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}

    def read(self) -> list[str]:
        self.visit(self.tree)
        return self.found

    def _tell(self, node: ast.AST, text: str) -> None:
        self.found.append(f"candidate.py:{getattr(node, 'lineno', 0)}: {text[:120]}")

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._path(node, alias.name.split("."))
            if alias.name in PARTS and alias.asname not in (None, alias.name):
                self._tell(node, f"{alias.name} under another name")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        path = (node.module or "").split(".")
        for alias in node.names:
            self._path(node, [*path, alias.name])

    def _path(self, node: ast.AST, path: list[str]) -> None:
        for number, part in enumerate(path):
            if part in MODULES or part in ATTRIBUTES:
                self._tell(node, f"import of {'.'.join(path)}")
            if part in PARTS and number + 1 < len(path) and path[number + 1] not in PARTS[part]:
                self._tell(node, f"import of {'.'.join(path)}")
            if part in PARTS and 0 < number == len(path) - 1:
                self._tell(node, f"import of {'.'.join(path)}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._attribute(node, node.value, node.attr)
        if not _is_read(node) and self._is_foreign(node.value) and not SWITCHES & set(_chain(node)):
            self._tell(node, f"assignment to {ast.unparse(node)}, which belongs to a library")
        self.generic_visit(node)

    def _attribute(self, node: ast.AST, owner: ast.expr, name: str) -> None:
        own = isinstance(owner, ast.Name) and owner.id == "self"
        if name in ATTRIBUTES or (name in MODULES - OF_OTHERS and not own) or (name in OWN_ONLY and not own):
            self._tell(node, f"the attribute {name}")
        if name == "__class__" and not _is_read(node):
            self._tell(node, "assignment to a class")
        if name in PARTS and not own and id(node) not in self.parts:
            self._tell(node, f"parts of {name} that are not known")

    def visit_Name(self, node: ast.Name) -> None:
        called = id(node) in self.called
        if node.id in CALLS and node.id not in self.bound and node.id not in self.foreign:
            self._tell(node, f"{node.id}()")
        elif node.id in {*NAMED, "globals"} and not called:
            self._tell(node, f"{node.id} under another name")
        elif node.id in PARTS and node.id in self.foreign and id(node) not in self.parts:
            self._tell(node, f"parts of {node.id} that are not known")
        elif node.id in ATTRIBUTES:
            self._tell(node, f"the name {node.id}")

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            self._attribute(node, ast.Name("_", ast.Load()), name)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            if isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "type":
                self._tell(node, f"a class made from {ast.unparse(base)}")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in NAMED:
            self._named(node, name)
        elif name == "globals" and id(node) not in self.plain:
            self._tell(node, "globals() without a name that is written out")
        elif name == "type" and len(node.args) > 1:
            self._tell(node, "a class made by type()")
        self.generic_visit(node)

    def _named(self, node: ast.Call, call: str) -> None:
        """getattr and its like: a name that is written out is an attribute; others are put together."""
        if len(node.args) <= NAMED[call] or any(isinstance(one, ast.Starred) for one in node.args):
            self._tell(node, f"{call} with arguments that are not written out")
            return
        owner, given = node.args[0], node.args[1]
        names = self.words.get(given.id) if isinstance(given, ast.Name) else None
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            names = {given.value}
        own = isinstance(owner, ast.Name) and owner.id == "self" and "self" not in self.bound
        if names is None and not own and call != "hasattr":
            self._tell(node, f"{call} of a name that is put together as it runs")
        for name in names or ():
            self._attribute(node, owner, unicodedata.normalize("NFKC", name))
        if call in ("setattr", "delattr") and self._is_foreign(owner) and not SWITCHES & set(_chain(owner)):
            self._tell(node, f"{call} of {ast.unparse(owner)}, which belongs to a library")

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.startswith("judge."):
            self._tell(node, "the name of a module of the judge")

    def _is_foreign(self, node: ast.expr) -> bool:
        chain = _chain(node)
        return bool(chain) and chain[0] in self.foreign


def _is_part(node: ast.Attribute) -> bool:
    """Whether it is a part, that honest code uses, of a module of which it does not use others."""
    of = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
    return node.attr in PARTS.get(of, ())


def _plain_globals(nodes: list[ast.AST]) -> Iterator[int]:
    """Calls of `globals()` that ask for a name which is written out: `globals().get("a")`, `"a" in globals()`."""
    for node in nodes:
        asked: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Call) and _chain(node.func)[1:] == [] and isinstance(node.func, ast.Attribute):
            asked = [(node.func.value, node.args[0])] if node.func.attr == "get" and node.args else []
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            asked = [(node.comparators[0], node.left)]
        elif isinstance(node, ast.Subscript) and _is_read(node):
            asked = [(node.value, node.slice)]
        for owner, name in asked:
            if isinstance(name, ast.Constant) and str(name.value) not in ATTRIBUTES | MODULES:
                yield id(owner)


def _is_read(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load | None)


def _chain(node: ast.expr) -> list[str]:
    """`a.b.c` as its names; [] for what does not begin with a name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def _foreign(nodes: list[ast.AST]) -> set[str]:
    """Names that imports bind, and names that are given a part of such a module."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
    given = [
        node for node in nodes if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute)
    ]
    while True:
        more = {
            target.id
            for node in given
            for target in node.targets
            if isinstance(target, ast.Name) and (_chain(node.value) or [""])[0] in found
        }
        if more <= found:
            return found
        found |= more


def _words(nodes: list[ast.AST]) -> dict[str, set[str]]:
    """Names of loops over strings that are written out, with those strings; none that is bound otherwise, too."""
    loops = [node for node in nodes if isinstance(node, ast.For | ast.comprehension)]
    found: dict[str, set[str]] = {}
    for node in loops:
        items = node.iter.elts if isinstance(node.iter, ast.Tuple | ast.List | ast.Set) else []
        if isinstance(node.target, ast.Name) and items:
            texts = {one.value for one in items if isinstance(one, ast.Constant) and isinstance(one.value, str)}
            if len(texts) == len(items):
                found.setdefault(node.target.id, set()).update(texts)
    bound = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    bound += [node.arg for node in nodes if isinstance(node, ast.arg)]
    loop_names = [node.target.id for node in loops if isinstance(node.target, ast.Name) and node.target.id in found]
    return {name: texts for name, texts in found.items() if bound.count(name) == loop_names.count(name)}
