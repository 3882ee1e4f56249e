"""Is a problem small enough for the interpreter? Answered by shapes alone, before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from judge.bench.admission.graph import Trace, interpreter_steps, tensors_in, trace_report
from judge.bench.admission.reference_run import listed
from judge.bench.admission.stages import Refused, Stages, described, problem_code
from judge.bench.foreign.loading import LoadedProblem
from judge.bench.foreign.whereabouts import FORWARD
from judge.values.graph import OpGraph

MAX_STEPS = 8000  # per forward; an evaluation makes several and has a minute
MAX_BYTES = 256 << 20  # inputs and parameters; the oracle and the copies need several times that
TOO_BIG = "problem.too_big_for_interpreter"


@dataclass(frozen=True)
class Preview:
    """The module and its inputs as fake tensors, with the traced operators. Nothing was computed or allocated."""

    model: torch.nn.Module
    inputs: list[Any]
    traced: Trace


def preview(loaded: LoadedProblem) -> Preview | None:
    """The problem on shapes alone; None for code that needs real values. The real stages tell what is wrong with it."""
    path = Path(str(loaded.module.__file__))
    try:
        with problem_code("the module on shapes alone", path), FakeTensorMode(allow_non_fake_inputs=True):
            model = loaded.Model(*loaded.get_init_inputs())
            inputs = listed(loaded.get_inputs())
            with loaded.whereabouts.inside(FORWARD):
                return Preview(model, inputs, trace_report(model, inputs))
    except Refused:
        return None


def check_size(loaded: LoadedProblem, seen: Preview | None, stages: Stages, facts: dict[str, Any]) -> None:
    """The stage "size". Raises Refused with the tensor shape that is too much, and what to do instead."""
    with stages.stage("size") as note:
        if seen is None:
            note.skip("Shapes are known only after running the module.")
            return
        facts["inputs"] = described(seen.inputs)
        _check_bytes(loaded, [*tensors_in(seen.inputs), *seen.model.parameters(), *seen.model.buffers()])
        note.detail = "small enough for the interpreter"
        if seen.traced.graph is not None:
            steps = _check_steps(loaded, seen.traced.graph)
            facts["environment"]["interpreter_steps"] = steps
            note.detail += f": about {steps:,} program steps a run"


def too_large(loaded: LoadedProblem, seen: Preview | None) -> str:
    """Why the interpreter cannot run it; empty where it can, or where only running tells the shapes."""
    if seen is None:
        return ""
    try:
        _check_bytes(loaded, [*tensors_in(seen.inputs), *seen.model.parameters(), *seen.model.buffers()])
        if seen.traced.graph is not None:
            _check_steps(loaded, seen.traced.graph)
    except Refused as refusal:
        return refusal.message
    return ""


def _check_bytes(loaded: LoadedProblem, held: list[torch.Tensor]) -> None:
    total = sum(tensor.numel() * tensor.element_size() for tensor in held)
    if total <= MAX_BYTES:
        return
    largest = max(held, key=lambda tensor: tensor.numel() * tensor.element_size())
    shape, dtype = list(largest.shape), str(largest.dtype).removeprefix("torch.")
    raise _too_big(
        loaded,
        f"inputs and parameters hold {total / 2**20:,.0f} MiB, most of it in {dtype} {shape}, "
        f"and the interpreter takes {MAX_BYTES >> 20} MiB",
    )


def _check_steps(loaded: LoadedProblem, graph: OpGraph) -> int:
    estimate = interpreter_steps(graph)
    if estimate.steps > MAX_STEPS:
        raise _too_big(
            loaded,
            f"{estimate.op} on {estimate.dtype} {list(estimate.shape)} makes one run take about "
            f"{estimate.steps:,} program steps ({estimate.seconds:,.0f} s), and the limit is {MAX_STEPS:,}",
        )
    return estimate.steps


def _too_big(loaded: LoadedProblem, why: str) -> Refused:
    numbers = [
        name
        for name, value in vars(loaded.module).items()
        if type(value) is int and value > 8 and not name.startswith("_")
    ]
    example = ", ".join(f'"{name}": ...' for name in numbers[:4]) or '"CONSTANT": ...'
    return Refused(
        TOO_BIG,
        f"Too large for the interpreter: {why}. A GPU worker is needed, or a smaller case for the interpreter.",
        f'Choose a GPU device, or add: def get_cases(): return {{"interpreter": {{{example}}}}}',
    )
