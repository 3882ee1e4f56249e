"""What the operators of a reference say about it: which inputs are fair questions, and how errors add up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Which of several equal elements wins is part of these operators' definition ...
_WITH_TIE_RULE = frozenset({"argmax", "argmin", "cummax", "cummin", "sign", "heaviside", "bucketize"})
_STEPS = frozenset({"round", "floor", "ceil", "trunc", "frac", "fmod", "remainder", "floor_divide"})
_COMPARISONS = frozenset({"gt", "ge", "lt", "le", "eq", "ne", "searchsorted"})
# ... and is left open by these. Of the second kind only the places are open: the values are the same whichever wins.
_WITHOUT_TIE_RULE = frozenset({"argsort", "mode", "unique_consecutive"})
_OPEN_PLACES = frozenset({"topk", "sort", "median", "nanmedian", "kthvalue"})
_PICKS = frozenset({"index", "index_select", "gather", "embedding", "take", "masked_select", "topk", "unfold"})
_COMPARE = (
    "max", "min", "exp", "sigmoid", "silu", "gelu", "tanh", "mish", "elu", "softplus", "topk", "sort", "pool", "cosh",
    "sinh", "attention", "kthvalue",
)  # fmt: skip
_NORMALISE = ("norm", "var", "std")
_ROOTS = frozenset({"sqrt", "rsqrt", "pow"})
_MATRIX = frozenset({"mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "addbmm"})
COMPENSATING = 3  # subtractions that a compensated sum needs at least


@dataclass(frozen=True)
class Traits:
    """`length`: terms in the longest reduction. The others tell which inputs are fair questions."""

    length: int = 1
    tie_rule: bool = False  # what happens to equal elements is defined and shows
    ties_open: bool = False  # several answers are right where elements are equal
    may_compensate: bool = False  # subtracts so often that it may carry along what sums lose
    operators: frozenset[str] = frozenset()  # names of ATen
    fp32: frozenset[str] = frozenset()  # those of them that were given operands of 32 bits
    steps: bool = False  # floating numbers become those of a coarser grid

    @property
    def multiplies(self) -> bool:
        """Whether it multiplies matrices, or convolves: digits of operands may be dropped there."""
        return any(name in _MATRIX or "convolution" in name or "attention" in name for name in self.operators)

    @property
    def compares(self) -> bool:
        """Whether it takes maxima or exponentials: what lies far from zero on one side takes paths of its own there."""
        return any(part in name for name in self.operators for part in _COMPARE)

    @property
    def normalises(self) -> bool:
        """Whether it divides by what it adds up of its inputs: by a variance, or the root of a mean of squares."""
        written_out = "mean" in self.operators and not _ROOTS.isdisjoint(self.operators)
        return written_out or any(part in name for name in self.operators for part in _NORMALISE)

    @property
    def takes_logarithms(self) -> bool:
        """Whether large numbers may cancel in a logarithm of a sum of exponentials."""
        return any("log" in name for name in self.operators)

    @property
    def selects(self) -> bool:
        """Whether rounding may decide which of several elements counts, as in a softmax of large numbers."""
        softmax = any("softmax" in name or "attention" in name for name in self.operators)
        return softmax or self.tie_rule or self.ties_open or self.steps


def traits_of(run: Callable[[], Any]) -> Traits:
    """Watch the operators of `run()`, which copies what it keeps: a tensor it only returns counts as unused."""
    watch = _Watch()
    with torch.no_grad(), watch:
        run()
    compensates = watch.subtractions >= COMPENSATING
    named = frozenset(watch.operators), frozenset(watch.fp32)
    return Traits(watch.length, watch.tie_rule, watch.ties_open, compensates, *named, steps=watch.steps)


class _Watch(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.length, self.subtractions = 1, 0
        self.tie_rule = self.ties_open = self.steps = False
        self.operators: set[str] = set()
        self.fp32: set[str] = set()
        self._open: list[torch.Tensor] = []  # places of equal elements, until somebody uses them

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if self._open and any(leaf is place for leaf in tree_leaves((args, kwargs)) for place in self._open):
            self.ties_open = True
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        self.operators.add(name)
        if tensors and tensors[0].dtype in (torch.float32, torch.complex64):
            self.fp32.add(name)
        if tensors and (tensors[0].is_floating_point() or tensors[0].is_complex()):
            if not func.is_view:
                self.length = max(self.length, _terms(name, tensors, out, args))
            self._ties(name, func._overloadname, kwargs or {})
            self.steps |= name in _STEPS or "mode" in func._overloadname
            if name in _OPEN_PLACES and isinstance(out, tuple) and not self._stable(func._overloadname, kwargs or {}):
                self._open.append(out[1])
            self.subtractions += name in ("sub", "rsub")
        return out

    @staticmethod
    def _stable(overload: str, kwargs: Any) -> bool:
        return bool("stable" in overload and kwargs.get("stable", True))

    def _ties(self, name: str, overload: str, kwargs: Any) -> None:
        stable = self._stable(overload, kwargs)
        if name in _WITHOUT_TIE_RULE and not stable:
            self.ties_open = True
        elif stable or name in _WITH_TIE_RULE or name in _COMPARISONS or (name in ("max", "min") and "dim" in overload):
            self.tie_rule = True


def _terms(name: str, tensors: list[torch.Tensor], out: Any, args: Any) -> int:
    result = out[0] if isinstance(out, tuple | list) and out else out
    if not isinstance(result, torch.Tensor) or name in _PICKS:
        return 1
    if name in _MATRIX:
        left = tensors[1] if name.startswith(("add", "badd")) else tensors[0]
        return int(left.shape[-1] if left.dim() else 1)
    if "convolution" in name and len(tensors) > 1:
        transposed = len(args) > 6 and args[6] is True
        return int(max(1, tensors[1].numel() // max(1, tensors[1].shape[1 if transposed else 0])))
    if "attention" in name or "softmax" in name or name.startswith(("cumsum", "cumprod", "logcumsumexp")):
        return int(max(tensors[0].shape, default=1))
    if "norm" in name and _with_statistics(out):
        return int(max(1, tensors[0].numel() // max(1, min(t.numel() for t in out[1:]))))
    return int(max(1, tensors[0].numel() // result.numel()) if result.numel() else 1)


def _with_statistics(out: Any) -> bool:
    return isinstance(out, tuple) and len(out) > 1 and all(isinstance(t, torch.Tensor) and t.numel() for t in out[1:])
