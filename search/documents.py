"""A finished search as one plain JSON document, as `run_search --json` prints it."""

from __future__ import annotations

from typing import Any

from judge.models import Measurement
from judge.problem_facts import flag_codes
from search.compat.rules import memory_document
from search.models import Node, Run
from search.selectors import RunTree, TreeNode, run_tree
from search.steering_force import params_in_force


def run_document(run: Run, *, toolchain: str, wall_s: float, command: str) -> dict[str, Any]:
    """`run`, `best` (None without a correct kernel) and `nodes`: every told node in number order, the root left out.

    A speedup never comes without its basis and, unless it is a reported one, its interval.
    """
    tree = run_tree(run)
    told = [node for node in tree.nodes if node.state == Node.State.TOLD and node.parent is not None]
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
        "best": _best(run, tree),
        "nodes": [_node(node) for node in told],
    }


def _best(run: Run, tree: RunTree) -> dict[str, Any] | None:
    """The best node with the times behind its speedup, those of the baselines included."""
    best = None if tree.best is None else tree.get(tree.best)
    if best is None:
        return None
    rows = Measurement.objects.filter(evaluation__nodes__run=run, evaluation__nodes__number=best.number)
    times = {row.subject: _times(row) for row in rows.order_by("subject")}
    return {**_node(best), "n": best.n, "times_us": times}


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
