"""A finished search as one plain JSON document, as `run_search --json` prints it."""

from __future__ import annotations

from typing import Any

from judge.evaluations.models import Measurement
from judge.problems.models import flag_codes
from search.interchange.rules import memory_document
from search.records.log import params_in_force
from search.records.models import Node, Run
from search.records.queries import RunTree, TreeNode, run_tree


def run_document(run: Run, *, toolchain: str, wall_s: float, command: str) -> dict[str, Any]:
    """`run`, `best` (None where nothing beat PyTorch; then `closest` is the kernel next to it, None without an audited
    one) and `nodes`: every told node in number order, the root left out.

    A speedup never comes without its basis and, unless it is a reported one, its interval.
    """
    tree = run_tree(run)
    told = [node for node in tree.nodes if node.state == Node.State.COMPLETED and node.parent is not None]
    return {
        "run": {
            "id": run.pk,
            "problem": run.problem.slug,
            "problem_hash": run.problem.source_hash,
            "problem_state": run.problem.state,
            "problem_flags": flag_codes(run.problem),
            "device": run.device.name,
            "device_title": run.device.title,
            "toolchain": toolchain,
            "proposer": run.proposer,
            "seed": run.seed,
            "params": run.params,
            "params_at_end": params_in_force(run).to_json(),
            "steps": run.steps,
            "limits": run.limits,
            "memory": memory_document(run),
            "told": len(told),
            "state": run.state,
            "stop_reason": run.stop_reason,
            "wall_s": round(wall_s, 3),
            "command": command,
        },
        "best": _timed(run, tree, tree.standing.best),
        "closest": _timed(run, tree, tree.standing.closest),
        "nodes": [_node(node) for node in told],
    }


def _timed(run: Run, tree: RunTree, number: int | None) -> dict[str, Any] | None:
    """A node with the times behind its speedup, those of the baselines included."""
    node = None if number is None else tree.get(number)
    if node is None:
        return None
    rows = Measurement.objects.filter(evaluation__nodes__run=run, evaluation__nodes__number=node.number)
    times = {row.subject: _times(row) for row in rows.order_by("subject")}
    return {**_node(node), "n": node.n, "times_us": times}


def _times(row: Measurement) -> dict[str, Any]:
    return {"median": row.median_us, "interval": [row.low_us, row.high_us], "n": row.n, "method": row.method}


def _node(node: TreeNode) -> dict[str, Any]:
    return {
        "number": node.number,
        "parent": node.parent,
        "kind": node.kind,
        "source_hash": node.source_hash,
        "verdict": node.verdict,
        "reason": node.reason,
        "speedup": node.speedup,
        "interval": None if node.low is None else [node.low, node.high],
        "basis": node.basis,
        "reused": node.reused,
        "summary": node.summary,
        "by_hand": node.touched,
    }
