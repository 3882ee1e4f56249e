"""Preflight of a problem: does the reference run, is its output worth computing, and what does it cost. In a child."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from judge.bench.admission_stages import Refused, Stages, problem_code
from judge.bench.dead_ops import dead_finding
from judge.bench.degeneracy import (
    Draw,
    Finding,
    blind_inputs,
    draws_of,
    output_finding,
    parameter_finding,
    rounding_finding,
)
from judge.bench.eager_time import eager_time_us
from judge.bench.flops import compulsory_bytes, count_flops, references, tensors_in
from judge.bench.graph_trace import Trace, trace_report
from judge.bench.interpreter_size import check_size
from judge.bench.loading import LoadedProblem
from judge.bench.nested import NotCarried, encode
from judge.bench.reference_run import SEED, Reference, leaves, relative
from judge.bench.tensor_words import described, listed, short, si
from judge.bench.whereabouts import FORWARD
from judge.graph import OpGraph
from judge.values import AdmissionReport, StageRecord

QUICK_S = 0.25  # only a forward below this is run dozens of times


def admit(loaded: LoadedProblem, device: str, send: Callable[[StageRecord], None], target: str = "") -> AdmissionReport:
    """Examine an imported problem on `device` ("interpreter", "cpu" or "cuda:N"); `target` is what times stand for.

    Sends one StageRecord per stage: size, construct, inputs, reference, output, finite, deterministic, graph, cost,
    worth, baseline. A problem that fails one is a refused report, never an exception.
    """
    return _Preflight(loaded, device, Stages(send, loaded.whereabouts.doing), target).report()


class _Preflight:
    """Facts gathered stage by stage; what is known when a stage fails still goes into the report."""

    def __init__(self, loaded: LoadedProblem, device: str, stages: Stages, target: str) -> None:
        self.loaded = loaded
        self.on_gpu = device.startswith("cuda")
        self.device = device if self.on_gpu else "cpu"
        self.stages = stages
        self.whereabouts = loaded.whereabouts
        self.path = Path(str(loaded.module.__file__))
        self.facts: dict[str, Any] = {
            "case": loaded.case,
            "cases": tuple(loaded.cases),
            "environment": {
                "device": device,
                "target": target,
                "python": platform.python_version(),
                "torch": torch.__version__,
            },
        }

    def report(self) -> AdmissionReport:
        started = time.perf_counter()
        try:
            finding = self._examine()
        except Refused as refusal:
            state, reason, message = "refused", refusal.reason, refusal.message
        else:
            state = "degenerate" if finding else "admitted"
            reason, message = (finding.reason, finding.message) if finding else ("", "")
        return AdmissionReport(
            state=state,
            reason=reason,
            message=message,
            stages=tuple(self.stages.records),
            wall_ms=(time.perf_counter() - started) * 1e3,
            **self.facts,
        )

    def _examine(self) -> Finding | None:
        if not self.on_gpu:
            check_size(self.loaded, self.stages, self.facts)
        reference = Reference(self._construct(), self.loaded.get_inputs, self.device, self.whereabouts)
        inputs = self._inputs(reference)
        first = self._reference(reference, inputs)
        self._finite(first)
        self._deterministic(reference, first)
        traced = self._graph(reference, inputs)
        self._cost(reference, first, traced.graph)
        finding = self._worth(reference, first, traced)
        if self.on_gpu:
            with self.stages.stage("baseline") as note, problem_code("Model.forward", self.path):
                self.facts["eager_us"] = eager_time_us(
                    reference.model, inputs, self.device, whereabouts=self.whereabouts
                )
                note.detail = f"{self.facts['eager_us']:.1f} us in eager mode"
        return finding

    def _construct(self) -> torch.nn.Module:
        with self.stages.stage("construct") as note:
            torch.manual_seed(SEED)
            with problem_code("get_init_inputs()", self.path):
                arguments = self.loaded.get_init_inputs()
            if not isinstance(arguments, list | tuple):
                raise Refused(
                    "problem.raises",
                    f"get_init_inputs() returned a {type(arguments).__name__}.",
                    "Return the list of arguments for Model(...), [] if there are none.",
                )
            with problem_code("Model(*get_init_inputs())", self.path):
                model = self.loaded.Model(*arguments)
                if not isinstance(model, torch.nn.Module):
                    raise Refused(
                        "problem.raises", "Model is not a torch.nn.Module.", "Write `class Model(torch.nn.Module)`."
                    )
                model = model.to(self.device)
            self.facts["parameters"] = sum(parameter.numel() for parameter in model.parameters())
            note.detail = f"{self.facts['parameters']:,} parameters, {'train' if model.training else 'eval'} mode"
        return model

    def _inputs(self, reference: Reference) -> list[Any]:
        with self.stages.stage("inputs") as note, problem_code("get_inputs()", self.path):
            inputs = reference.draw(SEED)
            self.facts["inputs"] = described(inputs)
            if not tensors_in(inputs):
                raise Refused(
                    "problem.raises", "get_inputs() returned no tensor.", "Return a list with at least one tensor."
                )
            note.detail = ", ".join(short(row) for row in self.facts["inputs"])
        return inputs

    def _reference(self, reference: Reference, inputs: list[Any]) -> Draw:
        with self.stages.stage("reference") as note:
            with problem_code("Model.forward", self.path):
                output = reference.run(inputs)
            note.detail = f"one run took {reference.last_s * 1e3:,.1f} ms"
        with self.stages.stage("output") as note:
            self._check_output(output)
            self.facts["outputs"] = described(output)
            note.detail = ", ".join(short(row) for row in self.facts["outputs"])
        return Draw(inputs, output, leaves(output))

    def _check_output(self, output: Any) -> None:
        fix = "Return a torch.Tensor, or a tuple, list or dict with at least one."
        try:
            encode(output, lambda tensor: 0, "the output")
        except NotCarried as error:
            raise Refused("problem.raises", f"Model.forward: {error}.", fix) from error
        if not tensors_in(output):
            raise Refused("problem.raises", f"Model.forward returned {type(output).__name__}, no tensor.", fix)
        if not any(tensor.numel() for tensor in tensors_in(output)):
            raise Refused("problem.raises", "Model.forward returned an empty tensor.", "Return at least one element.")

    def _finite(self, first: Draw) -> None:
        with self.stages.stage("finite") as note:
            total = sum(leaf.numel() for leaf in first.leaves)
            bad = total - sum(int(leaf.isfinite().sum()) for leaf in first.leaves)
            if bad == total:
                raise Refused(
                    "problem.not_finite",
                    "Every element of the output is NaN or infinite.",
                    "Use inputs in a range that the module can compute, or fix the module.",
                )
            if bad:
                note.warn(f"{bad / total:.2%} of the output is NaN or infinite; a candidate must match that exactly.")

    def _deterministic(self, reference: Reference, first: Draw) -> None:
        with self.stages.stage("deterministic") as note, problem_code("Model.forward", self.path):
            again = relative(first.leaves, leaves(reference.run(first.inputs)))
            if again > 1e-3:
                raise Refused(
                    "problem.nondeterministic",
                    "Two runs on the same inputs, parameters and random state differ.",
                    "Remove state that forward keeps between calls, clocks and unseeded randomness.",
                )
            if again > 0:
                note.warn(f"two equal runs differ by {again:.1e} of the output's spread")
            elif relative(first.leaves, leaves(reference.run(first.inputs, seed=SEED + 1))) > 0:
                note.warn(
                    "The output depends on the random state (dropout in train mode?).",
                    "Set p=0 or call eval() in __init__ so that a kernel can be compared element by element.",
                )

    def _graph(self, reference: Reference, inputs: list[Any]) -> Trace:
        with self.stages.stage("graph") as note, problem_code("Model.forward", self.path):
            with self.whereabouts.inside(FORWARD):
                traced = trace_report(reference.model, inputs)
            reference.restore()
            if traced.graph is None:
                note.warn(
                    traced.reason,
                    "The built-in proposer needs the op graph; a model or a person can still write kernels.",
                )
            else:
                self.facts["graph"] = json.loads(json.dumps(traced.graph.to_json()))  # lists, as it will arrive
                operators = [node.op for node in traced.graph.nodes if node.op.startswith("aten.")]
                note.detail = f"{len(operators)} operators: {listed(operators)}"
        return traced

    def _cost(self, reference: Reference, first: Draw, graph: OpGraph | None) -> None:
        with self.stages.stage("cost") as note, problem_code("Model.forward", self.path):
            with self.whereabouts.inside(FORWARD):
                flops = float(count_flops(reference.model, pytree.tree_map(_copied, first.inputs)))
            reference.restore()
            moved = float(compulsory_bytes(reference.model, first.inputs, first.output, graph))
            self.facts |= {"flops": flops, "compulsory_bytes": moved}
            note.detail = f"{si(flops)}FLOP, {si(moved)}B must move, {flops / max(moved, 1):.2g} FLOP/B"

    def _worth(self, reference: Reference, first: Draw, traced: Trace) -> Finding | None:
        with self.stages.stage("worth") as note, problem_code("Model.forward on other inputs", self.path):
            finding = self._finding(reference, first, traced)
            if finding is not None:
                note.warn(finding.message, "It can be searched, but is left out of every aggregate.")
                return finding
            blind = blind_inputs(reference, first) if reference.last_s < QUICK_S else []
            if blind:
                names = ", ".join(str(number) for number in blind)
                note.warn(f"Input {names} has no effect on the output.", "Remove it, or use it in forward.")
        return None

    def _finding(self, reference: Reference, first: Draw, traced: Trace) -> Finding | None:
        draws = draws_of(reference, first)
        quick = reference.last_s < QUICK_S
        finding = rounding_finding(reference, first)
        if finding is not None and finding.reason == "problem.near_zero":
            return finding
        return (
            output_finding(draws)
            or finding
            or parameter_finding(reference, first, _used_parameters(traced.graph), each=quick)
            or (self._dead(reference, draws[-1], traced) if quick and traced.program is not None else None)
        )

    def _dead(self, reference: Reference, draw: Draw, traced: Trace) -> Finding | None:
        with (
            suppress(RuntimeError, ValueError, TypeError),  # the exported form itself may refuse other values
            self.whereabouts.inside(FORWARD),
        ):
            return dead_finding(traced.program, draw.inputs, reference.restore, budget_s=2.0, clock=time.perf_counter)
        return None


def _used_parameters(graph: OpGraph | None) -> frozenset[str]:
    """Qualified names of the parameters that some operator reads."""
    if graph is None:
        return frozenset()
    read = {name for node in graph.nodes for name in references((node.args, node.kwargs))}
    return frozenset(node.target for node in graph.nodes if node.op == "parameter" and node.name in read)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
