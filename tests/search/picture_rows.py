"""Searches with what pictures are drawn from: timed kernels on a GPU, counted ones on the interpreter."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from judge.evaluations.models import Evaluation, Measurement
from search.records.models import Node, Run
from tests.judge.gpu_rows import gpu, judged, passed, problem
from tests.search.live_rows import grow, reserve
from tests.search.makers import make_problem, make_run


def told(run: Run, evaluation: Evaluation, *, parent: int = 0, kind: str = "large") -> Node:
    """One more node of the run with this verdict."""
    node = reserve(run, parent=parent, kind=kind)
    node.state, node.evaluation, node.told_at = Node.State.COMPLETED, evaluation, timezone.now()
    node.told_order = run.nodes.filter(state="told").count()
    node.save()
    return node


def measured_run(**changes: Any) -> Run:
    """On a GPU: 2x, a failure, 2.5x below it, and one whose interval reaches that."""
    device, on = gpu(), problem()
    run = make_run(device=device, problem=on, **({"steps": 10, "limits": {"device_s": 400}} | changes))
    told(run, passed(on, device, 223.9))
    told(run, judged(on, device, "wrong"), parent=1)
    told(run, passed(on, device, 179.1), parent=2, kind="small")
    told(run, passed(on, device, 179.3), parent=1)
    Evaluation.objects.update(wall_ms=2000)
    return run


def modelled_run(**changes: Any) -> Run:
    """On the interpreter: a counted kernel, one without counts, and a failure."""
    on = make_problem()
    roofline = {"dram_gb_s": 3350.0, "peak_tflops": 67.0, "kind": "fp32", "title": "NVIDIA H100 SXM"}
    on.admission = {"interpreter": on.admission["interpreter"] | {
        "flops": 1e6, "compulsory_bytes": 4e6, "roofline": roofline
    }}  # fmt: skip
    on.save()
    run = make_run(problem=on, **({"steps": 10} | changes))
    for speedup, detail in ((2.0, {"unique_bytes": 8_000_000}), (1.5, {}), (None, {})):
        node = grow(run, speedup=speedup)
        if speedup:
            Measurement.objects.create(
                evaluation=node.evaluation, subject="candidate", basis="modelled", method="traffic_model",
                samples_us=[10.0], n=1, median_us=10.0, low_us=6.0, high_us=17.0, detail=detail,
            )  # fmt: skip
    return run
