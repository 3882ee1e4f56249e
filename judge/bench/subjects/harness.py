"""Has foreign code rewired the harness that runs it: replaced a function of ours, a method, or one of the clocks?

A first line: cheap, and it names what was touched. Whoever blinds it as well still meets the referee's own clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

import torch

OURS = "judge.bench."
MOST = 16  # names that are told
CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns")
CUDA = ("Event", "CUDAGraph", "graph", "synchronize", "_sleep")


class Harness:
    """Remembers what stood where when it was made; `touched` tells what no longer does."""

    def __init__(self, *instances: object) -> None:
        """`instances`: objects of ours whose methods nobody may hide behind attributes of their own."""
        self._instances = instances
        self._stood: list[tuple[str, MappingProxyType[str, Any] | dict[str, Any], str, Any, Any]] = []
        self._modules: set[str] = set()
        self._imported = 0  # modules in all when it last looked
        for owner, names in ((time, CLOCKS), (torch.cuda, CUDA)):
            for name in names:
                if hasattr(owner, name):
                    self._remember(f"{owner.__name__}.{name}", vars(owner), name)
        for name in ("record", "elapsed_time", "synchronize", "query"):
            if name in vars(torch.cuda.Event):
                self._remember(f"torch.cuda.Event.{name}", vars(torch.cuda.Event), name)
        self._take_in()

    def touched(self) -> list[str]:
        """Names of what has been replaced, MOST at the most. Some tenths of a millisecond."""
        self._take_in()
        found = [
            title
            for title, place, name, stood, code in self._stood
            if place.get(name) is not stood or getattr(stood, "__code__", None) is not code
        ]
        for instance in self._instances:
            kind = type(instance)
            found += [f"{kind.__name__}.{name}" for name in vars(instance) if _is_method(kind, name)]
        return found[:MOST]

    def _take_in(self) -> None:
        """Modules of ours that have been imported since; a lazy import takes place under foreign code's eyes."""
        if len(sys.modules) == self._imported:
            return
        self._imported = len(sys.modules)
        for name, module in list(sys.modules.items()):
            if name.startswith(OURS) and name not in self._modules and isinstance(module, ModuleType):
                self._modules.add(name)
                for title, place, attribute in _functions(module):
                    self._remember(title, place, attribute)

    def _remember(self, title: str, place: Any, name: str) -> None:
        stood = place[name]
        self._stood.append((title, place, name, stood, getattr(stood, "__code__", None)))


def _functions(module: ModuleType) -> Iterator[tuple[str, Any, str]]:
    """Functions that a module defines or uses, its classes, and their methods: title, namespace, name."""
    for name, value in list(vars(module).items()):
        if isinstance(value, FunctionType):
            yield f"{module.__name__}.{name}", vars(module), name
        elif isinstance(value, type) and value.__module__ == module.__name__:
            yield f"{module.__name__}.{name}", vars(module), name
            for method, body in list(vars(value).items()):
                if isinstance(body, FunctionType | property | staticmethod | classmethod):
                    yield f"{module.__name__}.{name}.{method}", vars(value), method


def _is_method(kind: type, name: str) -> bool:
    return isinstance(getattr(kind, name, None), FunctionType)
