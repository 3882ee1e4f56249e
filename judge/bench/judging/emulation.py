"""What torch's TF32 switches do to a reference, on any device: operands of products lose digits before they are used.

A library may round or drop them, and may decide not to use TF32 at all; what is allowed must not depend on that.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from judge.bench.judging.precision import rounded
from judge.values import Switches

_ADDED = ("addmm", "baddbmm", "addmv", "addbmm")  # the first operand is added, in full


class ReducedProducts(TorchDispatchMode):  # type: ignore[misc]
    """Within it float32 operands of the operators that `switches` let use TF32 are rounded to `kind`."""

    def __init__(self, switches: Switches, kind: str) -> None:
        super().__init__()
        self.switches, self.kind = switches, kind

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False keeps torch from importing its compiler here."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        if self.switches.coarse((name,)):
            first = 1 if name in _ADDED else 0
            args = (*args[:first], *(self._reduced(value) for value in args[first : first + _operands(name)]),
                    *args[first + _operands(name) :])  # fmt: skip
        return func(*args, **(kwargs or {}))

    def _reduced(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self._reduced(one) for one in value]
        return rounded(value, self.kind) if isinstance(value, torch.Tensor) else value


def _operands(name: str) -> int:
    """How many arguments are multiplied: queries, keys and values; input and weights of a recurrent layer."""
    if "scaled_dot_product" in name or "rnn" in name:
        return 3
    return 2
