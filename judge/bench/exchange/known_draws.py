"""Large draws of a constructor, kept by the referee for the children that construct the same model from the same seed.

A draw is known by where the generator stood, the operation, its numbers, and the tensor's type and shape: whoever draws
otherwise finds nothing and draws. The numbers lie in a sealed memfd, which no child can change.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.autograd.graph import increment_version

LEAST_BYTES = 1 << 20  # of a tensor: a smaller one is drawn as quickly
MOST_BYTES = 1 << 30  # of one model: they stay in memory as long as the referee keeps it, whose files may be as large
MOST = 256  # draws of one model
FILLS = ("uniform_", "normal_")  # methods of torch.Tensor; the layers of torch.nn are initialised by these two
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE

Rows = dict[str, int]  # by key: where the numbers start; the generator's state after the draw follows them
Draw = Callable[[], object]


class KnownDraws:
    """The draws of one construction. `rows` and `fds` let another process `read` them."""

    def __init__(self) -> None:
        self.rows: Rows = {}
        self.fds: tuple[int, ...] = ()  # of the file in memory; none without a draw in it
        self._size = 0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep what is drawn in the block, once; nothing can be added or changed afterwards."""
        try:
            with _large_fills(self._keep):
                yield
        finally:
            for fd in self.fds:
                fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)

    def _keep(self, key: str, tensor: torch.Tensor, draw: Draw) -> None:
        draw()
        state = torch.get_rng_state()
        if self._size + tensor.nbytes + state.nbytes > MOST_BYTES or len(self.rows) >= MOST:
            return
        if not self.fds:
            self.fds = (os.memfd_create("draws", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING),)
            weakref.finalize(self, os.close, *self.fds)
        self.rows[key] = self._size
        for part in (tensor, state):
            self._size += _whole(os.pwritev, self.fds[0], part, self._size)


@contextmanager
def read(rows: Rows, fds: list[int]) -> Iterator[None]:
    """In the block, read what somebody has kept in place of drawing it. Closes `fds`: one, or none without rows."""

    def fill(key: str, tensor: torch.Tensor, draw: Draw) -> None:
        if key not in rows:
            draw()
            return
        state = torch.get_rng_state()
        end = rows[key] + _whole(os.preadv, fds[0], tensor, rows[key])
        _whole(os.preadv, fds[0], state, end)
        increment_version(tensor)
        torch.set_rng_state(state)

    try:
        with _large_fills(fill) if fds else nullcontext():
            yield
    finally:
        for fd in fds:
            os.close(fd)


def _whole(move: Callable[[int, list[memoryview], int], int], fd: int, tensor: torch.Tensor, place: int) -> int:
    """All bytes of a tensor to or from a place in the file, which a call moves in parts; how many. Readers share the
    position of the file, so nobody uses it."""
    data, done = _bytes_of(tensor), 0
    while done < len(data):
        done += move(fd, [data[done:]], place + done)
    return done


@contextmanager
def _large_fills(answer: Callable[[str, torch.Tensor, Draw], None]) -> Iterator[None]:
    """In the block, `answer(key, tensor, draw)` sees to large tensors that are to be filled with random numbers."""
    answers = [answer]  # none after the block: foreign code may have kept a function of ours
    ours = {name: _asking(name, getattr(torch.Tensor, name), answers) for name in FILLS}
    for name, function in ours.items():
        setattr(torch.Tensor, name, function)
    try:
        yield
    finally:
        answers.clear()
        for name, function in ours.items():
            if getattr(torch.Tensor, name) is function:  # else foreign code has put another there, which stays
                setattr(torch.Tensor, name, function.__wrapped__)


def _asking(name: str, original: Callable[..., Any], answers: list[Callable[..., None]]) -> Any:
    @functools.wraps(original)
    def fill(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        key = _key(name, self, args, kwargs) if answers and _is_large(self) else ""
        if not key:
            return original(self, *args, **kwargs)
        answers[0](key, self, lambda: original(self, *args, **kwargs))
        return self

    return fill


def _is_large(tensor: torch.Tensor) -> bool:
    """Whether its bytes, in order, are what is drawn, and torch lets anybody write them."""
    return bool(
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and tensor.nbytes >= LEAST_BYTES
        and tensor.is_floating_point()
        and tensor.is_contiguous()
        and not tensor.is_inference()
        and not (tensor.requires_grad and torch.is_grad_enabled())
    )


def _key(name: str, tensor: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Of everything that decides the numbers; "" for a generator of its own and for what is no plain number."""
    named = {key: value for key, value in kwargs.items() if key != "generator" or value is not None}
    if not all(type(value) in (int, float) for value in (*args, *named.values())):
        return ""
    found = hashlib.sha256(_bytes_of(torch.get_rng_state()))
    found.update(repr((name, args, sorted(named.items()), tensor.dtype, tuple(tensor.shape))).encode())
    return found.hexdigest()


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    return memoryview(tensor.detach().view(-1).view(torch.uint8).numpy())
