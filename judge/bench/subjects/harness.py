"""Has foreign code rewired the harness that runs it: replaced a function of ours, a method, or one of the clocks?

A first line: cheap, and it names what was touched. Whoever blinds it as well still meets the referee's own clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from operator import attrgetter, call, is_
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import torch

OURS = "judge.bench."
MOST = 16  # names that are told
CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns")
CUDA = ("Event", "CUDAGraph", "graph", "synchronize", "_sleep")


_code_of = attrgetter("__code__")


class Row(NamedTuple):
    """What stood under a name of one namespace."""

    title: str
    place: Any  # the namespace
    name: str
    stood: Any
    code: Any  # of a function, else None

    @classmethod
    def of(cls, title: str, place: Any, name: str) -> Row:
        return cls(title, place, name, place[name], getattr(place[name], "__code__", None))

    @property
    def is_touched(self) -> bool:
        return self.place.get(self.name) is not self.stood or getattr(self.stood, "__code__", None) is not self.code


_surveyed: dict[str, list[Row]] = {}  # by module, where somebody looked through them ahead


class Harness:
    """Remembers what stood where when it was made; `touched` tells what no longer does."""

    def __init__(self, *instances: object) -> None:
        """`instances`: objects of ours whose methods nobody may hide behind attributes of their own."""
        self._instances = instances
        self._stood: list[Row] = []
        self._modules: set[str] = set()
        self._imported = 0  # modules in all when it last looked
        for owner, names in ((time, CLOCKS), (torch.cuda, CUDA)):
            for name in names:
                if hasattr(owner, name):
                    self._stood.append(Row.of(f"{owner.__name__}.{name}", vars(owner), name))
        for name in ("record", "elapsed_time", "synchronize", "query"):
            if name in vars(torch.cuda.Event):
                self._stood.append(Row.of(f"torch.cuda.Event.{name}", vars(torch.cuda.Event), name))
        self._take_in()

    def touched(self) -> list[str]:
        """Names of what has been replaced, MOST at the most. Some tenths of a millisecond."""
        self._take_in()
        stands = all(map(is_, map(call, self._gets, self._names), self._values))
        found = [] if stands and self._has_its_code() else [row.title for row in self._stood if row.is_touched]
        for instance in self._instances:
            kind = type(instance)
            found += [f"{kind.__name__}.{name}" for name in vars(instance) if _is_method(kind, name)]
        return found[:MOST]

    def _has_its_code(self) -> bool:
        return all(map(is_, map(_code_of, self._functions), self._codes))

    def _take_in(self) -> None:
        """Modules of ours that have been imported since; a lazy import takes place under foreign code's eyes."""
        if len(sys.modules) == self._imported:
            return
        self._imported = len(sys.modules)
        fresh = [(name, module) for name, module in _modules() if name not in self._modules]
        if not fresh:
            return
        for name, module in fresh:
            self._modules.add(name)
            self._stood += _surveyed.get(name) or _rows(module)
        self._gets = [row.place.get for row in self._stood]  # columns of the rows: they are compared without a loop
        self._names = [row.name for row in self._stood]
        self._values = [row.stood for row in self._stood]
        known = {id(row.stood): row for row in self._stood if row.code is not None}
        self._functions = [row.stood for row in known.values()]
        self._codes = [row.code for row in known.values()]


def survey() -> None:
    """Look through all modules of ours ahead, before a fork: no child then does it again. No foreign code has run."""
    _surveyed.update((name, _rows(module)) for name, module in _modules())


def _modules() -> list[tuple[str, ModuleType]]:
    named = list(sys.modules.items())
    return [(name, module) for name, module in named if name.startswith(OURS) and isinstance(module, ModuleType)]


def _rows(module: ModuleType) -> list[Row]:
    return [Row.of(*found) for found in _functions(module)]


def _functions(module: ModuleType) -> Iterator[tuple[str, Any, str]]:
    """Functions that a module defines or uses, its classes, and their methods: title, namespace, name."""
    for name, value in list(vars(module).items()):
        if isinstance(value, FunctionType):
            yield f"{module.__name__}.{name}", vars(module), name
        elif isinstance(value, type) and value.__module__ == module.__name__:
            yield f"{module.__name__}.{name}", vars(module), name
            methods = vars(value)
            for method, body in list(methods.items()):
                if isinstance(body, FunctionType | property | staticmethod | classmethod):
                    yield f"{module.__name__}.{name}.{method}", methods, method


def _is_method(kind: type, name: str) -> bool:
    return isinstance(getattr(kind, name, None), FunctionType)
