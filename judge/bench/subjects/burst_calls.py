"""The subject's side of a burst: calls laid out beforehand, then run back to back, or replayed from a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from judge.bench.exchange.arenas import Arena, Slot
from judge.bench.exchange.nested import ordered, packed
from judge.bench.exchange.wire import Message


class BurstCalls:
    """Holds what the next burst will run.

    `decoded` turns a command into arguments that lie in the arena, `call` calls the model with them.
    """

    def __init__(self, device: str, decoded: Callable[[Message], Any], call: Callable[[Any, Any], Any]) -> None:
        self.device = device
        self._decoded = decoded
        self._call = call
        self._calls: list[tuple[Any, list[Slot], int]] = []
        self._graph: Any = None

    def ready(self, command: Message) -> Message:
        self._graph = None
        self._calls = [
            (self._decoded(row), [Slot.from_json(slot) for slot in row["out"]], row["seed"]) for row in command["calls"]
        ]
        self._wait()
        return {"ready": len(self._calls)}

    def capture(self, model: Any, arena: Arena) -> Message:
        """Record the calls into a CUDA graph. Raises what torch raises for work that cannot be captured."""
        self._run(model, arena)  # whatever a first call allocates must exist before
        self._wait()
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            self._run(model, arena)
        self._wait()
        self._graph = graph
        return {"captured": len(self._calls)}

    def burst(self, model: Any, arena: Arena) -> Message:
        if self._graph is not None:
            self._graph.replay()
        else:
            self._run(model, arena)
        self._wait()
        return {"done": len(self._calls)}

    def _run(self, model: Any, arena: Arena) -> None:
        with torch.no_grad():
            for args, slots, _ in self._calls:
                out = self._call(model, args)
                tensors = [out] if isinstance(out, torch.Tensor) else packed(ordered(out))[1]
                for slot, tensor in zip(slots, tensors, strict=True):
                    arena.put(slot, tensor.detach())

    def _wait(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()
