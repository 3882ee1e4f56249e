"""Turns what Triton raises while compiling into one message a person can act on: line, caret, no machine paths."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from typing import Any

from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError

_PATH = re.compile(r"(?:/[\w.+\-]+)+/([\w.+\-]+)")
_LOCATED = re.compile(r"^(?:[\w./+\-]*/)?([\w.+\-]+\.py):(\d+):(\d+): (?:error|remark|note): (.*)$", re.MULTILINE)
_RESOURCE_ADVICE = {
    "shared memory": "smaller blocks or fewer stages need less",
    "threads": "use fewer warps",
    "tensor memory": "smaller blocks need less",
}


def describe(error: BaseException, path: str, diagnostics: str = "") -> str:
    """What went wrong when compiling a kernel of the file `path`; `diagnostics` is what the compiler printed."""
    if isinstance(error, OutOfResources):
        return _resources(error)
    if isinstance(error, CompilationError):
        return _located(error, path)
    if isinstance(error, PTXASError):
        return clean(str(error).partition("Repro command")[0].strip())
    found = _LOCATED.search(diagnostics)
    if found is not None:
        name, line, column, text = found.groups()
        return _with_caret(f"{name}:{line}: {clean(text)}", linecache.getline(path, int(line)), int(column) - 1)
    return clean(f"{type(error).__name__}: {_text(error)}")


def clean(text: str) -> str:
    """The text with every absolute path cut to its file name."""
    return _PATH.sub(r"\1", text)


def _resources(error: Any) -> str:
    advice = _RESOURCE_ADVICE.get(error.name, "smaller blocks need less")
    unit = " bytes" if error.name == "shared memory" else ""
    return f"out of {error.name}: needs {error.required}{unit}, available {error.limit}{unit}; {advice}"


def _located(error: Any, path: str) -> str:
    chain = list(_chain(error))
    placed = [(item, line) for item in chain if (line := _first_line(item.src, path)) is not None]
    reason = clean(_reason(chain[-1]))
    if not placed or not hasattr(placed[-1][0].node, "lineno"):
        return reason
    item, first = placed[-1]
    line = first + item.node.lineno - 1
    text = linecache.getline(path, line)
    column = item.node.col_offset + _indent(text) - _indent(item.src.split("\n")[item.node.lineno - 1])
    return _with_caret(f"{clean(path)}:{line}: {reason}", text, column)


def _chain(error: BaseException | None) -> Iterator[Any]:
    """The compilation errors from the kernel down to the innermost function it calls."""
    while isinstance(error, CompilationError):
        yield error
        error = error.__cause__


def _reason(error: Any) -> str:
    if error.error_message:
        return str(error.error_message)
    cause = error.__cause__
    return f"{type(cause).__name__}: {_text(cause)}" if cause is not None else type(error).__name__


def _text(error: BaseException) -> str:
    """KeyError quotes its message; everything else speaks plainly."""
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)


def _first_line(source: str | None, path: str) -> int | None:
    """The line of `path` where a function's source starts; None when it comes from another file."""
    if not source:
        return None
    wanted = [line.strip() for line in source.rstrip().split("\n")]
    lines = [line.strip() for line in linecache.getlines(path)]
    for start in range(len(lines) - len(wanted) + 1):
        if lines[start] == wanted[0] and lines[start : start + len(wanted)] == wanted:
            return start + 1
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _with_caret(message: str, line: str, column: int) -> str:
    line = line.rstrip("\n")
    if not line.strip():
        return message
    shift = _indent(line)
    return f"{message}\n    {line.strip()}\n    {' ' * max(0, column - shift)}^"
