"""Where the values of an interpreted call come from: who computes where nobody counts has to bring the result back.

NumPy, ctypes, threads, other libraries and plain Python can compute unseen. What they have computed enters the call in
one of two ways. Either memory changes between two counted events (operators of torch, launches of kernels): what such
an event takes up is not what the last one left. Or new values come from the host: tensors made of Python's numbers or
of foreign memory, and numbers handed to kernels and operators; those of honest code hardly depend on content. What
forward returns is taken up like what an operator gets.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from judge.bench.interpreting.op_traffic import (
    inside_added,
    is_added,
    is_made_of_others,
    is_silent,
    is_view,
    replaced_operators,
)

MOST_NAMES = 20
MOST_BYTES = 512 << 20  # that counted events leave in one call: beyond, some of them, at random, are not compared
HOST_BYTES = 512  # of values from the host that may differ between calls: a few seeds, scales and addresses
SHARE = 8  # and of what forward returns at most one part in so many, numbers that were read back aside
NUMBER_BYTES = 8
_READ = torch.ops.aten._local_scalar_dense
_POINTERS = (torch.int64, torch.uint64)  # a kernel may write where such numbers point


@dataclass(frozen=True)
class _Left:
    """A storage as the last counted event left it. `ref` tells whether the memory is still its own."""

    ref: StorageWeakRef
    nbytes: int
    digest: bytes


class Origins(TorchDispatchMode):  # type: ignore[misc]
    """Looks at every counted event of this thread. `found`: what was not counted in the last watched call, in words."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._left: dict[int, _Left] = {}  # by address
        self._touched: set[int] = set()
        self._host: Counter[tuple[str, int]] = Counter()  # values from the host, with their bytes
        self._first: Counter[tuple[str, int]] | None = None  # those of the first call
        self._read: set[str] = set()  # numbers that were read back from tensors
        self._returned = 0  # bytes
        self._spent = 0
        self._draws = random.SystemRandom()
        self._inside = False  # a kernel: what the interpreter does with torch there is the kernel's

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """See `op_traffic._OpCounter`."""
        return False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch one call. Every call must be for inputs of the same shapes."""
        self.found, self._spent, self._returned, self._inside = [], 0, 0, False
        self._host.clear()
        self._left = {}
        for tensor in _alive():
            self._leave(tensor, free=True)
        self._touched.clear()
        with self:
            yield
        for address in list(self._touched):
            self._compare(address, "the end of forward")
        self._compare_host()
        self._tell_replaced()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._inside:
            return func(*args, **kwargs)
        if is_view(func) and not is_made_of_others(func):
            self._take_numbers(tree_leaves((args, kwargs)))
            return func(*args, **kwargs)
        if is_added(func):
            return inside_added(self, func, args, kwargs)
        self._tell_replaced()  # it may be taken back before forward ends
        leaves = tree_leaves((args, kwargs))
        self._take(leaves, str(func._overloadpacket))
        out = func(*args, **kwargs)
        if func._overloadpacket is _READ:
            self._read.add(repr(out))
        self._leave_all([*leaves, *tree_leaves(out)], free=is_silent(func))
        return out

    def returned(self, out: Any) -> None:
        """What forward returned, before the watched block ends: the last to be taken up."""
        leaves = tree_leaves(out)
        self._take(leaves, "what forward returns")
        self._returned = sum(one.nbytes if isinstance(one, torch.Tensor) else NUMBER_BYTES for one in leaves)

    def launch(self, name: str, given: Iterable[Any], run: Callable[[Callable[..., Any]], Any]) -> Any:
        """One launch. `run` gets what calls foreign code on the way for it, such as the function of a grid."""
        leaves = list(_leaves(given))
        for leaf in leaves:
            if _has_code_of_its_own(leaf):
                self._tell(f"{name[:80]} gets a {type(leaf).__name__[:80]} with methods of its own")
        self._take(leaves, name)

        def foreign(function: Callable[..., Any], *arguments: Any) -> Any:
            self._inside = False
            try:
                return function(*arguments)
            finally:
                self._take([one for one in leaves if isinstance(one, torch.Tensor)], name)
                self._inside = True

        self._inside = True
        try:
            return run(foreign)
        finally:
            self._inside = False
            self._leave_all(leaves)
            if _points(leaves):
                self._touched.update(self._left)
                for address, left in list(self._left.items()):
                    if not left.ref.expired():
                        self._left[address] = _Left(left.ref, left.nbytes, self._looked_at(address, left.nbytes))

    def _take(self, leaves: Iterable[Any], by: str) -> None:
        leaves = list(leaves)
        if not self._inside and _points(leaves):
            for address in list(self._left):
                self._compare(address, by)
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                place = _place(leaf)
                if place is not None and not self._compare(place[0], by):
                    self._host[_digest(*place[:2]).hex(), place[1]] += 1
                    self._leave(leaf)
        self._take_numbers(leaves)

    def _take_numbers(self, leaves: Iterable[Any]) -> None:
        for leaf in leaves:
            if type(leaf) in (int, float):
                self._host[repr(leaf), NUMBER_BYTES] += 1
            elif type(leaf) in (str, bytes):
                self._host[repr(leaf), len(leaf)] += 1

    def _compare(self, address: int, by: str) -> bool:
        """Whether the memory there is known; whoever takes up what has changed since is named."""
        left = self._left.get(address)
        if left is None or left.ref.expired():
            return False
        digest = _digest(address, left.nbytes) if left.digest else b""
        if digest != left.digest:
            self._tell(f"{by[:80]} takes up {left.nbytes:,} bytes that no kernel and no counted operator wrote")
            self._left[address] = _Left(left.ref, left.nbytes, digest)
        return True

    def _leave_all(self, leaves: Iterable[Any], *, free: bool = False) -> None:
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                self._leave(leaf, free=free)

    def _leave(self, tensor: torch.Tensor, *, free: bool = False) -> None:
        place = _place(tensor)
        if place is not None:
            address, nbytes, ref = place
            self._left[address] = _Left(ref, nbytes, self._looked_at(address, nbytes, free=free))
            self._touched.add(address)

    def _looked_at(self, address: int, nbytes: int, *, free: bool = False) -> bytes:
        """The digest; empty where it is not to be compared. The bytes of events that take no time (`free`) do not count
        for the limit: a candidate could use it up with them."""
        self._spent += 0 if free else nbytes
        if self._spent > MOST_BYTES and self._draws.random() > MOST_BYTES / self._spent:
            return b""
        return _digest(address, nbytes)

    def _compare_host(self) -> None:
        """Values from the host beside those of the first call."""
        if self._first is None:
            self._first = self._host.copy()
        new, missing = self._host - self._first, self._first - self._host
        more = sum(nbytes * count for (_, nbytes), count in new.items())
        derived = sum(nbytes * count for (text, nbytes), count in (new + missing).items() if text not in self._read)
        if more > HOST_BYTES or derived > self._returned // SHARE:
            self._tell(f"{more:,} bytes came from the host that depend on what is asked")

    def _tell_replaced(self) -> None:
        for name in replaced_operators():
            self._tell(f"{name} was given another kernel")

    def _tell(self, text: str) -> None:
        if text not in self.found and len(self.found) < MOST_NAMES:
            self.found.append(text)


def _digest(address: int, nbytes: int) -> bytes:
    return hashlib.blake2b((ctypes.c_char * nbytes).from_address(address), digest_size=16).digest()


def _has_code_of_its_own(leaf: Any) -> bool:
    """Whether a launch would call methods that are not torch's: of an object that only looks like a tensor, too."""
    if type(leaf) in (torch.Tensor, torch.nn.Parameter):
        return any(hasattr(torch.Tensor, name) for name in vars(leaf))
    return hasattr(leaf, "data_ptr") and type(leaf).__module__.partition(".")[0] not in ("torch", "triton")


def _alive() -> list[torch.Tensor]:
    """Tensors that Python knows, parameters included."""
    return [one for one in gc.get_objects() if type(one) in (torch.Tensor, torch.nn.Parameter)]


def _place(tensor: torch.Tensor) -> tuple[int, int, StorageWeakRef] | None:
    """Address, bytes and owner of a tensor's storage; None where there is none in this process's memory."""
    with torch._C.DisableTorchFunction():
        if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            return None
        try:
            storage = tensor.untyped_storage()
            address, nbytes = storage.data_ptr(), storage.nbytes()
        except (NotImplementedError, RuntimeError):  # of a tensor without storage
            return None
        return (address, nbytes, StorageWeakRef(storage)) if address and nbytes else None


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    """Tensors and numbers among a kernel's arguments: in tuples, and under descriptors."""
    for value in values:
        if isinstance(value, tuple | list):
            yield from _leaves(value)
        elif isinstance(value, tl.constexpr):
            yield from _leaves([value.value])
        else:
            yield value if isinstance(value, torch.Tensor) else getattr(value, "base", value)


def _points(leaves: Iterable[Any]) -> bool:
    return any(isinstance(one, torch.Tensor) and one.dtype in _POINTERS for one in leaves)
