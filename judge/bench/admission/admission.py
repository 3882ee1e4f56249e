"""Preflight of a problem: does the reference run, is its output worth computing, and what does it cost. In a child."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from judge.bench.admission.costs import Costs
from judge.bench.admission.declared import other_cases, with_case
from judge.bench.admission.degeneracy import Draw
from judge.bench.admission.gradients import with_gradients
from judge.bench.admission.graph import Trace, tensors_in, trace_report
from judge.bench.admission.op_algebra import algebra_flaws
from judge.bench.admission.reference_run import SEED, Reference, leaves, relative
from judge.bench.admission.size import check_size, preview
from judge.bench.admission.stages import MEMORY, Note, Refused, Stages, described, listed, problem_code, short
from judge.bench.admission.worth import MAY_LACK_MEMORY, Worth
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.exchange.nested import NotCarried, encode
from judge.bench.foreign.factories import made, under
from judge.bench.foreign.loading import LoadedProblem
from judge.bench.foreign.whereabouts import FORWARD
from judge.values import DEFAULT_POLICY, DEGENERATE, AdmissionReport, Flaw, Gradients, Policy, StageRecord
from judge.values.weights import UNWEIGHTED


def admit(
    loaded: LoadedProblem,
    device: str,
    send: Callable[[StageRecord], None],
    target: str = "",
    policy: Policy = DEFAULT_POLICY,
    lock: GpuLock | None = None,
) -> AdmissionReport:
    """Examine an imported problem on `device` ("interpreter", "cpu" or "cuda:N"); `target` is what times stand for.

    The GPU is shared with others but for the moments that are timed.

    Sends one StageRecord per stage: shapes, size, construct, inputs, reference, output, finite, deterministic, graph,
    gradients (where they are asked for), cost, worth, algebra, null, baseline. A problem that fails one is a refused
    report, never an exception.
    """
    stages = Stages(send, loaded.whereabouts.doing)
    return _Preflight(loaded, device, stages, target, policy, lock or GpuLock(None)).report()


class _Preflight:
    """Facts gathered stage by stage; what is known when a stage fails still goes into the report."""

    def __init__(
        self, loaded: LoadedProblem, device: str, stages: Stages, target: str, policy: Policy, lock: GpuLock
    ) -> None:
        self.loaded = loaded
        self.policy = policy
        self.lock = lock
        self.on_gpu = device.startswith("cuda")
        self.device = device if self.on_gpu else "cpu"
        self.target = target
        self.stages = stages
        self.whereabouts = loaded.whereabouts
        self.path = Path(str(loaded.module.__file__))
        self.flaws: list[Flaw] = []
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
        state, reason, message = "admitted", "", ""
        try:
            with self.lock.shared():
                self._examine()
        except Refused as refusal:
            state, reason, message = "refused", refusal.reason, refusal.message
        self.flaws.sort(key=lambda flaw: DEGENERATE.index(flaw.code) if flaw.flags else len(DEGENERATE))
        if state == "admitted" and self.flaws and self.flaws[0].flags:
            state, reason, message = "degenerate", self.flaws[0].code, self.flaws[0].message
        return AdmissionReport(
            state=state,
            reason=reason,
            message=message,
            stages=tuple(self.stages.records),
            flaws=tuple(self.flaws),
            wall_ms=(time.perf_counter() - started) * 1e3,
            **self.facts,
        )

    def _examine(self) -> None:
        shapes_known = self._shapes()
        reference = Reference(self._construct(), self._draw, self.device, self.whereabouts)
        inputs = self._inputs(reference)
        first = self._reference(reference, inputs)
        self._finite(first)
        self._deterministic(reference, first)
        traced = self._graph(reference, inputs)
        costs = Costs(self.loaded, self.policy, self.device, self.target, self.lock)
        if self.policy.gradients is not Gradients.NONE:
            with self.stages.stage("gradients") as note:
                costs.call = with_gradients(self.loaded, self.policy, self.device, self.path, note)
        with self.stages.stage("cost") as note, problem_code("Model.forward", self.path):
            self.facts |= costs.count(reference, first, traced.graph)
            note.detail = costs.summary
        worth = Worth(self.loaded, reference, first, traced, self.policy, self.lock.working_s)
        for name, examine in worth.parts(shapes_known=shapes_known):
            with self.stages.stage(name) as note:
                self._examined(name, note, examine)
        with self.stages.stage("baseline") as note, problem_code("Model.forward", self.path):
            self.facts |= costs.baseline(reference, inputs, note)
        if len(self.loaded.cases) > (self.loaded.case is not None):
            with self.stages.stage("cases") as note:
                self.facts["declared"] = self._declared(note)

    def _examined(self, name: str, note: Note, examine: Callable[[], list[Flaw]]) -> None:
        """One part of what makes a problem worth judging. Raises Refused."""
        try:
            with problem_code("Model.forward on other inputs", self.path):
                self._note(note, examine())
        except Refused as refusal:
            if refusal.reason != MEMORY or name not in MAY_LACK_MEMORY:
                raise
            note.warn("Not examined: it takes more memory than the reference, and there is not so much here.")
        if self.on_gpu:
            torch.cuda.empty_cache()

    def _declared(self, note: Note) -> tuple[dict[str, Any], ...]:
        """Shapes of each case of get_cases(); the reference is run on those that a candidate is asked here."""
        evaluated = {"name": self.loaded.case, "inputs": self.facts["inputs"], "left_out": ""}
        rows = [evaluated] if self.loaded.case is not None else []
        for name, why in other_cases(self.loaded, on_gpu=self.on_gpu).items():
            with problem_code(f"the module in case {name!r}", self.path), with_case(self.loaded, name) as other:
                seen = preview(other)
                inputs = () if seen is None else described(seen.inputs)
                if not why:
                    inputs = described(self._runs(other, name))
            rows.append({"name": name, "inputs": inputs, "left_out": why})
        if self.loaded.weights:
            rows = [{**row, "weight": self.loaded.weights.get(str(row["name"]), UNWEIGHTED)} for row in rows]
        asked = sum(not row["left_out"] for row in rows)
        note.detail = f"{asked} of {len(rows)} are asked here" if asked < len(rows) else f"all {asked} run"
        if self.loaded.weights and not any(row["weight"] and not row["left_out"] for row in rows):
            note.warn(f"{note.detail}; none of them has a weight: the evaluated case alone is timed here")
        return tuple(rows)

    def _runs(self, other: LoadedProblem, name: str) -> list[Any]:
        """The inputs of a case, on which the reference gives an answer. Raises Refused, with its name."""
        model = under(self.policy, other.Model(*other.get_init_inputs()), self.device)
        inputs = made(other.get_inputs, self.policy, self.device, SEED)
        with self.whereabouts.inside(FORWARD), torch.no_grad():
            self._check_output(model(*inputs))
        return inputs

    def _shapes(self) -> bool:
        """What shapes alone say, then whether they fit the interpreter. False when only running tells the shapes."""
        seen = None
        with self.stages.stage("shapes") as note:
            seen = preview(self.loaded)
            if seen is None or seen.traced.graph is None:
                note.skip("Shapes are known only after running the module.")
            else:
                self._note(note, algebra_flaws(seen.traced, self.loaded))
        if not self.on_gpu:
            check_size(self.loaded, seen, self.stages, self.facts)
        return seen is not None and seen.traced.graph is not None

    def _note(self, note: Any, flaws: list[Flaw]) -> None:
        """Keep what was found, and warn of it in the running stage."""
        self.flaws += flaws
        if flaws:
            note.warn(" ".join(flaw.message for flaw in flaws), " ".join(flaw.fix for flaw in flaws))

    def _draw(self, seed: int) -> list[Any]:
        return made(self.loaded.get_inputs, self.policy, self.device, seed)

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
                model = under(self.policy, model, self.device)
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
                traced = trace_report(reference.model, pytree.tree_map(_copied, inputs))
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


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
