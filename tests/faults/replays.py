"""Rebuilds a search from its event log alone and compares every decision that was made on the way."""

from __future__ import annotations

from collections.abc import Iterator

from judge.values import Verdict
from search.algorithm.decide import decide, node_rng
from search.algorithm.params import SearchParams
from search.algorithm.tree import Tree
from search.records.models import Run, RunEvent


def differences(run: Run) -> Iterator[str]:
    """Steps that the log's order of events decides otherwise than they were decided."""
    tree, params = Tree(), SearchParams.from_json(run.params)
    written = dict(run.nodes.values_list("number", "source_hash"))
    for kind, payload in RunEvent.objects.filter(run=run).order_by("seq").values_list("kind", "payload"):
        number = payload.get("number")
        if kind == "node.reserved":
            made = decide(tree, params, node_rng(run.seed, number))
            if (made.parent, made.kind, list(made.context)) != tuple(payload[k] for k in ("parent", "kind", "context")):
                yield f"node {number} was decided otherwise"
            tree.reserve(number, payload["parent"], payload["kind"])
        elif kind == "node.cancelled":
            tree.cancel(number)
        elif kind == "node.told" and number not in tree.branches:
            yield f"node {number} was told but never reserved"
        elif kind == "node.told":
            speedup = (payload["speedup"] or 0.0) if payload["verdict"] == Verdict.PASS else None
            tree.tell(number, payload["reward"], speedup=speedup, written=bool(written[number]))
