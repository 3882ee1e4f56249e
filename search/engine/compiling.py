"""Compiling a kernel while it waits for its device: on the processor, beside whatever is measured there."""

from __future__ import annotations

import logging
from collections.abc import Callable

from judge.bench.runner import Bench
from judge.devices.models import Device
from judge.evaluations.services import candidate_compile
from judge.values import JudgeError
from search.engine.leases import QUEUED
from search.records.models import Node

log = logging.getLogger(__name__)


def step_compile(*, node_id: int, bench_for: Callable[[Device], Bench]) -> None:
    """Have the node's machine code ready when its turn comes. Claims nothing and changes no row: whoever judges finds
    it, waits for it, or does without."""
    waiting = Node.objects.filter(pk=node_id, state=Node.State.JUDGING, lease_owner=QUEUED)
    node = waiting.select_related("run__problem", "run__device").first()
    if node is None or node.run.device.kind != Device.Kind.CUDA or node.run.device.remote:
        return
    device = node.run.device
    try:
        candidate_compile(problem=node.run.problem, device=device, source=node.source, bench=bench_for(device))
    except JudgeError as error:
        log.warning("node %s was not compiled ahead: %s", node_id, error)
