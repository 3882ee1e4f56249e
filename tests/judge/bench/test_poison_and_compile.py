"""Poisoning an allocation must not change how a candidate that uses torch.compile runs afterwards."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from judge.bench.exchange.poison import poisoned_allocations


@pytest.mark.parametrize("calls", ["plain poisoned plain plain", "poisoned plain plain"])
def test_a_compiled_function_stays_compiled_through_a_poisoned_call(calls):
    ran = []

    def backend(graph, _):
        def run(*args):
            ran.append(1)
            return graph.forward(*args)

        return run

    def unwritten(x):
        kept = torch.empty(4, 4)
        return x + kept * 1.0

    torch._dynamo.reset()
    compiled = torch.compile(unwritten, backend=backend)
    for call in calls.split():
        with torch.no_grad(), poisoned_allocations() if call == "poisoned" else nullcontext():
            out = compiled(torch.ones(4, 4))
        assert call != "poisoned" or bool(out.isnan().all())
    assert len(ran) == len(calls.split())
