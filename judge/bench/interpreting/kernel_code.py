"""What a launch would have to be compiled from: the kernel's text, what it refers to, constants, kinds of arguments.

A launch that is interpreted and one that is compiled for the target are the same kernel when these agree.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
import types
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
import triton.language as tl

UNKNOWN = "unknown"  # the code of a kernel whose text nobody has seen
MOST_CODES = 500  # that a process tells of
_texts: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()  # rewritten function -> what it was made of

_codes: set[types.CodeType] = set()  # of those functions, and of what they were made of
Codes = dict[str, str]  # code -> name of the kernel


def remember_texts(rewriter: type[Any]) -> None:
    """Let the interpreter's `rewriter` note which text each function that it makes is compiled from. Once a process."""
    construct, rewrite, transform = rewriter.__init__, rewriter.rewrite_ast, rewriter._transform_ast

    def init(self: Any, fn: Any, **kwargs: Any) -> None:
        construct(self, fn, **kwargs)
        _codes.update(_nested(fn.__code__))  # reductions call it as it is

    def transform_ast(self: Any, source: str) -> Any:
        self.judged_text = source
        return transform(self, source)

    def rewrite_ast(self: Any) -> Any:
        self.judged_text = None
        made = rewrite(self)
        if self.judged_text is not None:
            _texts[made] = self.judged_text
            _codes.update(_nested(made.__code__))
        return made

    rewriter.__init__, rewriter._transform_ast, rewriter.rewrite_ast = init, transform_ast, rewrite_ast


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and that of comprehensions in it."""
    yield code
    for item in code.co_consts:
        if isinstance(item, types.CodeType):
            yield from _nested(item)


def is_kernel(code: types.CodeType) -> bool:
    """Whether this is what the interpreter runs for a kernel, or for a function under `jit` that a kernel calls."""
    return code in _codes


def launch_code(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """16 hexadecimal digits for one launch. `kernel`: a JITFunction, or the function that the interpreter runs."""
    text = _text_of(kernel)
    if text is None:
        return UNKNOWN
    parts = [_described(kernel, text, set()), *_arguments(_function(kernel), args, kwargs)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _function(kernel: Any) -> Any:
    return getattr(kernel, "fn", kernel)


def _text_of(kernel: Any) -> str | None:
    """What is compiled, or was compiled for the interpreter; None where that is not known."""
    if hasattr(kernel, "rewrite"):
        kernel = kernel.rewrite()
    if isinstance(kernel, types.FunctionType):
        return _texts.get(kernel)
    text = getattr(kernel, "src", None)
    return text if isinstance(text, str) else None


def _described(kernel: Any, text: str, seen: set[str]) -> str:
    """The text as a tree, and the values of the names that it refers to, other kernels included."""
    tree, names = _parsed(text)
    if tree in seen:
        return "again"
    seen.add(tree)
    function = _function(kernel)
    scope = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return "\n".join([tree, *(f"{name}={_value(scope[name], seen)}" for name in names if name in scope)])


@cache
def _parsed(text: str) -> tuple[str, tuple[str, ...]]:
    """The function's tree without decorators, and the names that it reads and does not bind itself."""
    function = ast.parse(textwrap.dedent(text)).body[0]
    if isinstance(function, ast.FunctionDef):
        function.decorator_list = []
    nodes = list(ast.walk(function))
    bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    read = {node.id for node in nodes if isinstance(node, ast.Name)} - bound
    return ast.dump(function), tuple(sorted(read))


def _value(value: Any, seen: set[str]) -> str:
    """A value that a kernel is compiled with: by content where it is plain, by name or kind where it is not."""
    if isinstance(value, tl.constexpr):
        return _value(value.value, seen)
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | torch.dtype | tl.dtype):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, tuple | list):
        return f"({','.join(_value(item, seen) for item in value)})"
    if isinstance(value, types.ModuleType):
        return value.__name__
    if hasattr(value, "fn"):
        return _kernel(value, seen)
    code = getattr(value, "__code__", None)
    if code is not None and not value.__module__.startswith("triton."):
        return _code(code)
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _kernel(value: Any, seen: set[str]) -> str:
    """Another kernel that a kernel calls; Triton's own by name."""
    while hasattr(value.fn, "fn"):  # under an autotuner
        value = value.fn
    if value.fn.__module__.startswith("triton."):
        return f"{value.fn.__module__}.{value.fn.__qualname__}"
    text = _text_of(value)
    return UNKNOWN if text is None else _described(value, text, seen)


def _code(code: types.CodeType) -> str:
    """A Python function's code without its place."""
    constants = [_code(item) if isinstance(item, types.CodeType) else repr(item) for item in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _arguments(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """For each parameter: a constant's value, else what Triton specialises on."""
    parameters = inspect.signature(function).parameters
    given = dict(zip(parameters, args, strict=False)) | {name: kwargs[name] for name in parameters if name in kwargs}
    described = []
    for name, parameter in parameters.items():
        value = given.get(name, parameter.default)
        constant = "constexpr" in str(parameter.annotation)
        described.append(f"{name}:{_value(value, set()) if constant else _kind(value)}")
    return described


def _kind(value: Any) -> str:
    """What a kernel knows of an argument while it is compiled. A whole number that is 1 becomes a constant."""
    if isinstance(value, torch.Tensor):
        return f"tensor {value.dtype}"
    if isinstance(value, tuple | list):
        return f"({','.join(map(_kind, value))})"
    if type(value) is int:
        return "one" if value == 1 else "int"
    return type(value).__name__
