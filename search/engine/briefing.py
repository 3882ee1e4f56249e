"""Puts together what a proposer is told about one step: problem, device, the kernels to look at."""

from __future__ import annotations

import hashlib
from typing import Any

from judge.devices.models import Device
from judge.values import Verdict
from memory.prompting.places import toolchain_now
from memory.prompting.queries import shown_to
from search.proposers.protocol import Exhibit, Task
from search.records.facts import verdict_of
from search.records.models import Node, Run
from search.records.steering_log import notes_of


def task_of(node: Node) -> Task:
    """The task of a reserved node. Reads its parent and context nodes; the same node gives the same task, until one of
    these is marked."""
    run = node.run
    report = run.problem.report_for(run.device.name) or {}
    base = node.parent.source if node.kind == Node.Kind.SMALL and node.parent else None
    return Task(
        kind=node.kind,
        problem_title=run.problem.title,
        problem_source=run.problem.source,
        graph=report.get("graph"),
        device=device_facts(run.device, toolchain=toolchain_now(run.problem, run.device), case=report.get("case")),
        exhibits=exhibits_of(run, node.context),
        seed=node_seed(run.seed, node.number),
        number=node.number,
        base=base,
        notes=notes_of(node),
        rules=shown_to(node.pk),
        options=run.proposer_options,
    )


def node_seed(seed: int, number: int) -> int:
    """63 bits that depend only on the run's seed and the node's number."""
    digest = hashlib.sha256(f"{seed}:{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def exhibits_of(run: Run, numbers: list[int]) -> tuple[Exhibit, ...]:
    """The context kernels in the order of the decision, each with its verdict in words."""
    nodes = Node.objects.filter(run=run, number__in=numbers).select_related("evaluation")
    by_number = {node.number: node for node in nodes.defer("evaluation__source", "evaluation__report")}
    return tuple(_exhibit(by_number[number]) for number in numbers if number in by_number)


def _exhibit(node: Node) -> Exhibit:
    """What is in doubt when the prompt is written is shown without its speedup, and not as a pass."""
    found = node.evaluation
    if found is not None and found.doubt:
        message = f"{found.get_doubt_display()}: {found.doubt_reason}"
        return Exhibit(number=node.number, source=node.source, verdict=Verdict.SUSPECT.value, message=message)
    return Exhibit(
        number=node.number,
        source=node.source,
        verdict=verdict_of(found.verdict if found else None, node.kind, node.reason),
        message=found.message if found else node.message,
        speedup=found.speedup if found else None,
        basis=found.basis if found else "",
    )


def device_facts(device: Device, *, toolchain: str, case: str | None) -> dict[str, Any]:
    """Plain facts for a prompt: what the device is, the versions that judge there now, the case that is timed."""
    facts = {name: value for name, value in device.facts.items() if isinstance(value, str | int | float)}
    return {
        **facts,
        "name": device.name,
        "kind": device.kind,
        "title": device.title,
        "arch": device.arch,
        "toolchain": toolchain,
        "case": case,
    }
