"""What one forward of the reference costs: FLOPs, bytes that must move, the bound of a GPU, the time in eager mode."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from judge.bench.admission.degeneracy import Draw
from judge.bench.admission.eager_time import eager_time, modelled_eager
from judge.bench.admission.flops import compulsory_bytes
from judge.bench.admission.reference_run import Reference
from judge.bench.admission.roofline import roofline
from judge.bench.admission.stages import Note
from judge.bench.admission.tensor_words import si
from judge.bench.device.bandwidth import bandwidth_bytes_per_us
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.foreign.loading import LoadedProblem
from judge.bench.foreign.whereabouts import FORWARD
from judge.bench.interpreting.calibration import factor
from judge.bench.interpreting.op_traffic import eager_traffic
from judge.bench.interpreting.targets import TARGETS
from judge.bench.interpreting.traffic import TrafficReport
from judge.values import Policy
from judge.values.graph import OpGraph
from judge.values.units import microseconds


class Costs:
    """Counted on `device` ("cpu" or "cuda:N") for the GPU called `target` ("sm_90", or "" for none)."""

    def __init__(self, loaded: LoadedProblem, policy: Policy, device: str, target: str, lock: GpuLock) -> None:
        self.whereabouts = loaded.whereabouts
        self.policy = policy
        self.device = device
        self.target = target
        self.lock = lock
        self.traffic = TrafficReport()
        self.words = ""

    def count(self, reference: Reference, first: Draw, graph: OpGraph | None) -> dict[str, Any]:
        """`flops`, `compulsory_bytes` and, for a known GPU, `roofline`. Runs the reference once."""
        copies = pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, first.inputs)
        with self.whereabouts.inside(FORWARD):
            self.traffic = eager_traffic(reference.model, copies)
        reference.restore()
        flops = float(self.traffic.flops)
        moved = float(compulsory_bytes(reference.model, first.inputs, first.output, graph))
        self.words = f"{si(flops)}FLOP, {si(moved)}B must move, {flops / max(moved, 1):.2g} FLOP/B"
        found: dict[str, Any] = {"flops": flops, "compulsory_bytes": moved}
        measured = self._bandwidth_gb_s()
        if measured is not None or self.target in TARGETS:
            bound = roofline(self.traffic, moved, self.target, self.policy, measured)
            found["roofline"] = bound
            self.words += f"; no faster than {microseconds(bound.bound_us)} on {bound.target} ({bound.bound} bound)"
        return found

    def _bandwidth_gb_s(self) -> float | None:
        if self.device == "cpu":
            return None
        with self.lock.alone():
            return bandwidth_bytes_per_us(self.device) / 1e3

    def baseline(self, reference: Reference, inputs: list[Any], note: Note) -> dict[str, Any]:
        """`eager`: timed on a GPU, else the model's range."""
        if self.device == "cpu":
            modelled = modelled_eager(self.traffic, self.target)
            if modelled is None:
                note.skip("No GPU is named that a time could be modelled for.")
                return {}
            error = modelled.high_us / modelled.median_us
            note.detail = f"{microseconds(modelled.median_us)} in eager mode, MODELLED, within {factor(error)}"
            return {"eager": modelled}
        with self.lock.alone():
            found = eager_time(reference.model, inputs, self.device, whereabouts=self.whereabouts)
        reference.restore()
        note.detail = f"{found.median_us:,.1f} µs in eager mode [{found.low_us:,.1f}–{found.high_us:,.1f}] n={found.n}"
        return {"eager": found}
