"""Checks of uploaded text that run nothing, and reports of the errors it raises. Standard library only."""

from __future__ import annotations

import ast
import traceback
from pathlib import Path

from judge.values.parsing import parse_module, parsed
from judge.values.texts import bad_text

MESSAGE_CHARS = 4000
FENCE_HINT = "the text still holds Markdown fences (```); send only the Python code"


class LoadError(Exception):
    """The text cannot be used: `reason` is a stage reason code, `line` a 1-based line of the file or None."""

    def __init__(self, reason: str, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.line = line


def check_source(source: str, *, needs: tuple[str, ...], max_bytes: int) -> ast.Module:
    """Parse `source` and check that it defines each of `needs` at top level. Raises LoadError("source.*")."""
    size = len(source.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise LoadError("source.too_large", f"the text has {size:,} bytes; the limit is {max_bytes:,}")
    check_text(source)
    try:
        tree = parse_module(source)
    except SyntaxError as error:
        raise LoadError("source.syntax", _syntax_message(source, error), error.lineno) from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise LoadError("source.syntax", f"the text cannot be parsed: {error or 'nested too deeply'}") from error
    defined = _top_level_names(tree)
    for name in needs:
        if name not in defined:
            raise LoadError("source.no_model", f"`{name}` is not defined at the top level of the file; add it")
    return tree


def check_text(source: str) -> None:
    """Raise LoadError (`source.binary`, `source.encoding`) for text that others could read as another text."""
    bad = bad_text(source)
    if bad is not None:
        raise LoadError("source.binary" if bad.binary else "source.encoding", bad.message, bad.line)


def _syntax_message(source: str, error: SyntaxError) -> str:
    if any(line.lstrip().startswith("```") for line in source.splitlines()):
        return f"line {error.lineno}: {FENCE_HINT}"
    text = (error.text or "").rstrip()
    caret = f"\n{text}\n{' ' * max(0, (error.offset or 1) - 1)}^" if text and len(text) < 200 else ""
    return f"line {error.lineno}: {error.msg}{caret}"


def _top_level_names(tree: ast.Module) -> set[str]:
    """Names bound at module level, branches of `if` and `try` included."""
    names: set[str] = set()
    bodies: list[ast.stmt] = list(tree.body)
    while bodies:
        node = bodies.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for field in ("body", "orelse", "finalbody"):
                bodies.extend(getattr(node, field, ()))
            for handler in getattr(node, "handlers", ()):
                bodies.extend(handler.body)
    return names


def raised(reason: str, doing: str, error: BaseException, path: Path) -> LoadError:
    """A LoadError with what uploaded code raised: its own frames only, paths cut to the file name."""
    return LoadError(reason, f"{doing} raised {describe(error, path)}", line_of(error, path))


def describe(error: BaseException, path: Path) -> str:
    """`Type: text` and the frames inside `path`, without the judge's own frames or private folders."""
    text = "".join(traceback.format_exception_only(error)).strip()
    frames = [
        f'  File "{path.name}", line {frame.lineno}, in {frame.name}' + (f"\n    {frame.line}" if frame.line else "")
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    body = "\n".join([text, *frames[-8:]])
    return body.replace(str(path.parent) + "/", "")[:MESSAGE_CHARS]


def line_of(error: BaseException, path: Path) -> int | None:
    """Line of the innermost frame inside `path`; for a SyntaxError raised by it, its own line."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return lines[-1] if lines else None


MOST = 200


def defined_kernels(source: str) -> dict[str, list[str]]:
    """Name of each function under a `jit` decorator -> the names it uses. Text that does not parse defines none."""
    tree = parsed(source)
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and any(_is_jit(decorator) for decorator in node.decorator_list):
            used = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
            found[node.name] = sorted(used - {node.name})
            if len(found) >= MOST:
                break
    return {name: [other for other in used if other in found] for name, used in found.items()}


def _is_jit(decorator: ast.expr) -> bool:
    """`jit`, `triton.jit`, `triton.jit(...)`."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
    return name == "jit"
