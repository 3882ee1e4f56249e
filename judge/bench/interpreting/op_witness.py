"""Which of torch's operators ran where they are not counted: in another thread, or with torch's modes switched off.

Operators are counted by a dispatch mode, which belongs to one thread and can be switched off. torch's own profiler sees
the operators of every thread and marks those that went through a mode; nothing of that happens in Python.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch._C._profiler import ProfilerActivity, ProfilerConfig, ProfilerState, _ExperimentalConfig, _RecordFunctionFast

from judge.bench.interpreting.traffic import Ledger

MODE = "PythonDispatchMode"  # what the profiler calls a mode's turn
MOST_NAMES = 20
READ, MOST_READ = "aten::_local_scalar_dense", 256  # one number that is read back, and how many may be in a call
# Operators that describe memory, or that torch runs by itself, below its modes, to make a tensor out of Python numbers.
_HARMLESS = frozenset(
    {
        "_local_scalar_dense", "_reshape_alias", "_to_copy", "_unsafe_view", "alias", "as_strided", "copy_", "detach",
        "detach_", "empty", "empty_like", "empty_strided", "expand", "fill_", "lift", "lift_fresh", "new_empty",
        "permute", "resize_", "select", "set_", "slice", "split", "squeeze", "t", "transpose", "unbind", "unfold",
        "unsqueeze", "view", "zero_",
    }
)  # fmt: skip


class OpWitness:
    """`unseen`: names of operators that ran in the last watched block and were not counted; each once."""

    def __init__(self) -> None:
        self.unseen: list[str] = []

    @contextmanager
    def watching(self, ledger: Ledger) -> Iterator[None]:
        """Watch the block, in which operators are counted into `ledger`."""
        marks = [secrets.token_hex(8) for _ in range(2)]  # of the beginning and the end
        _start()
        _mark(marks[0])
        try:
            yield
        finally:
            _mark(marks[1])
            self.unseen = _found(marks, ledger.operators)[:MOST_NAMES]


def warm_up() -> None:
    """Let the profiler start its thread, which stays, before anybody looks whose threads there are."""
    _start()
    torch._C._autograd._disable_profiler()


def _mark(name: str) -> None:
    with _RecordFunctionFast(name):
        pass


def _found(marks: list[str], counted: int) -> list[str]:
    """Stop, and tell what was seen."""
    try:
        events = torch._C._autograd._disable_profiler().events()
    except RuntimeError:  # it is not running
        events = []
    if not {event.name() for event in events}.issuperset(marks):
        return ["torch.profiler"]  # somebody has stopped it
    return _unseen(events, counted)


def _start() -> None:
    everywhere = _ExperimentalConfig(profile_all_threads=True)
    config = ProfilerConfig(ProfilerState.KINETO, False, False, False, False, False, everywhere)
    torch._C._autograd._prepare_profiler(config, {ProfilerActivity.CPU})
    torch._C._autograd._enable_profiler(config, {ProfilerActivity.CPU})


class _Node:
    """An event with those that it contains."""

    def __init__(self, name: str, start: int, end: int) -> None:
        self.name, self.start, self.end = name, start, end
        self.inside: list[_Node] = []

    @property
    def modes(self) -> int:
        """Turns of modes in it that contain none themselves."""
        within = sum(node.modes for node in self.inside)
        return within or int(self.name == MODE)


def _unseen(events: Any, counted: int) -> list[str]:
    """Names of operators beyond every mode; `counted`: operators that came to the mode which counts."""
    found: dict[str, None] = {}
    roots = _trees(events)
    for root in roots:
        _look(root, found)
    if sum(root.modes for root in roots) > counted:
        found["operators under a mode that is not the judge's"] = None
    if sum(event.name() == READ for event in events) > MOST_READ:
        found[f"reading back more than {MOST_READ} numbers"] = None
    return list(found)


def _look(node: _Node, found: dict[str, None]) -> None:
    if node.name == MODE:
        return
    if node.modes:
        for one in node.inside:
            _look(one, found)
    elif node.name.startswith("aten::") and not _is_made_of_others(node.name):
        if node.name.removeprefix("aten::") not in _HARMLESS:
            found[node.name] = None
    else:
        for one in node.inside:
            _look(one, found)


@cache
def _is_made_of_others(name: str) -> bool:
    """Whether the operator computes nothing but by calling others, or nothing at all."""
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
    names = [getattr(packet, overload).name() for overload in packet.overloads()] if packet is not None else []
    known = list(filter(torch._C._dispatch_has_kernel, names))  # some exist for TorchScript alone
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return bool(known) and all(has_kernel(one, "CompositeImplicitAutograd") for one in known)


def _trees(events: Any) -> list[_Node]:
    """The outermost events of every thread. Events of one thread are nested or apart."""
    threads: dict[int, list[_Node]] = {}
    for event in events:
        node = _Node(event.name(), event.start_ns(), event.end_ns())
        threads.setdefault(event.start_thread_id(), []).append(node)
    roots: list[_Node] = []
    for nodes in threads.values():
        open_ones: list[_Node] = []
        for node in sorted(nodes, key=lambda one: (one.start, -one.end)):
            while open_ones and open_ones[-1].end <= node.start:
                open_ones.pop()
            (open_ones[-1].inside if open_ones else roots).append(node)
            open_ones.append(node)
    return roots
