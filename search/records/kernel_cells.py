"""Where a candidate stands in the grid of `map_elites`: kernels launched x arithmetic pattern, read from its source."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from judge.values.parsing import parse_module

UNREADABLE = "unreadable"
_LAUNCHES = ((1, "1"), (2, "2"), (4, "3-4"))  # up to so many: the bucket
LAUNCHES = ("0", *(name for _, name in _LAUNCHES), "5+")  # every bucket, in order
_PATTERNS = (  # the first that is met names the pattern
    ("dot", frozenset({"dot", "dot_scaled"})),
    ("scan", frozenset({"associative_scan", "cumsum", "cumprod", "sort"})),
    ("reduction", frozenset({"sum", "max", "min", "reduce", "argmax", "argmin", "softmax", "xor_sum"})),
)
PATTERNS = (*(name for name, _ in _PATTERNS), "elementwise", "torch")  # in order, without "+atomic"


def cell_of(source: str) -> str:
    """`launches:pattern`, such as `1:reduction` or `3-4:dot+atomic`. Without a Triton kernel the pattern is `torch`.

    Launches are call sites of the form `kernel[grid](...)`; a loop around one counts once. Never runs the source.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a candidate's text, e.g. of its escapes
            module = parse_module(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return UNREADABLE
    kernels = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and _is_kernel(node)]
    launches = sum(isinstance(call.func, ast.Subscript) for call in _calls(module))
    bucket = next((name for most, name in _LAUNCHES if launches <= most), "5+") if launches else "0"
    used = {name for kernel in kernels for name in _language_calls(kernel)}
    return f"{bucket}:{_pattern(used) if kernels else 'torch'}"


def _pattern(used: set[str]) -> str:
    named = next((word for word, names in _PATTERNS if used & names), "elementwise")
    return f"{named}+atomic" if any(name.startswith("atomic_") for name in used) else named


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(decorator).split("(")[0].split(".") for decorator in function.decorator_list)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _language_calls(kernel: ast.FunctionDef) -> Iterator[str]:
    """Names called on `tl` or the like: `tl.dot` gives dot."""
    for call in _calls(kernel):
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            yield call.func.attr
