"""A run as AdaExplore's packed document or folder; what the format has no place for goes under a key of ours."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import F

from adaexplore_site.core.text import storable
from judge.devices.models import MODELLED_ELSEWHERE, Device, kinds
from judge.evaluations.models import Evaluation, Measurement
from judge.values import Basis, Subject, Verdict
from search.algorithm.ranking import rank
from search.interchange.exports import PRODUCT, product_version, zipped
from search.interchange.own import OWN, PARTS
from search.interchange.run_folder import files_of
from search.records.facts import NodeRow, node_rows
from search.records.models import Node, Proposal, Run

KINDS = {Node.Kind.ROOT: "dummy_root", Node.Kind.LARGE: "large_step", Node.Kind.SMALL: "small_step"}
EXTERNAL = "external:"

# Named in every export: what the file does not hold for another program, or for an import here.
LOST = (
    "timing samples, intervals and sample counts: one speedup and two medians a node remain",
    "correctness cases, stages, findings, audits and environments: a measured speedup counts as reported once "
    "imported, a MODELLED one stays MODELLED with its range",
    "replies of the proposer, tokens, prices and every call but the last of a node",
    "score parts of each decision, leases and the times of events",
    "the events themselves; people's actions and notes are read-only history once imported",
    "policy and sealed cases of the problem: only its source, numerics and gradients are kept",
    "nodes that ended without an evaluation have a reported one once imported",
    "the contexts of cancelled nodes",
)


def packed_document(run: Run) -> dict[str, Any]:
    """The run's told nodes in the order in which they were told, the root first."""
    rows = node_rows(run.pk)
    told = sorted((row for row in rows if row.told_order is not None), key=lambda row: row.told_order or 0)
    texts, figures, prompts = _texts(run), _figures(run), _prompts(run)
    hardware = _hardware(run.device)
    steps: list[dict[str, Any]] = []
    depths: dict[int, int] = {}
    best: tuple[tuple[bool, bool, float], int] = ((False, False, 0.0), 0)
    for row in told:
        depths[row.number] = 0 if row.parent is None else depths[row.parent] + 1
        step = _step(row, depths[row.number], texts[row.id], figures.get(row.id, {}), hardware)
        step["prompt"] = prompts.get(row.id, "")
        score = tuple(step["score"].values())
        best = max(best, (score, row.number), key=lambda item: (*item[0][:2], *rank(item[0][2], item[1])))
        steps.append(
            step | {"global_best_node_id": best[1], "global_best_fast_p": best[0][2], "global_best_score": best[0]}
        )
    kernel = next((step["code"] for step in steps if step["node_id"] == best[1]), "")
    return {
        "label": run.imported.get("label") or run.title or run.problem.title,
        "run_dir": run.imported.get("run_dir") or f"run-{run.pk}",
        "total_steps": len(steps) - 1,
        "reference_src": run.problem.source,
        "global_best_kernel": kernel,
        "steps": steps,
        OWN: _own(run, [row for row in rows if row.state == Node.State.CANCELLED]),
    }


def _step(row: NodeRow, depth: int, texts: dict[str, Any], figures: dict[str, Any], hardware: str) -> dict[str, Any]:
    root = row.parent is None
    correct = row.verdict == Verdict.PASS
    worth = 0.0 if root else row.paper_reward
    step = {
        "step": row.told_order,
        "node_id": row.number,
        "parent_node_id": row.parent,
        "context_node_ids": texts["context"],
        "depth": depth,
        "created_by": KINDS[Node.Kind(row.kind)],
        "visits": 0 if root else 1,  # as the original writes them: when the node was made
        "total_reward": worth,
        "max_reward": worth,
        "avg_reward": worth,
        "score": {
            "compiled": correct or bool(row.loads),
            "correct": correct,
            "fast_p": (row.speedup or 0.0) if correct else 0.0,
        },
        "runtime_us": figures.get("candidate", -1.0),
        "baseline_time_us": figures.get("eager"),
        "hardware": None if root else figures.get("hardware", hardware),
        "error": texts["error"] or None,
        "code": texts["source"],
    }
    return step if root else step | {OWN: _own_step(row)}


def _own_step(row: NodeRow) -> dict[str, Any]:
    named = {
        "verdict": row.verdict,
        "reason": row.reason,
        "basis": row.basis or "",
        "low": row.low,
        "high": row.high,
        "n": row.n,
        "audit": row.audit or "",
        "reused": row.reused,
        "summary": row.summary,
        "touched": row.touched,
    }
    return {key: value for key, value in named.items() if value not in (None, "", False)}


def _own(run: Run, cancelled: Iterable[NodeRow]) -> dict[str, Any]:
    """The run's own settings, and every node the format has no place for."""
    return {
        "format": 1,
        "product": f"{PRODUCT} {product_version()}",
        "problem": {
            "slug": run.problem.slug,
            "sha256": run.problem.source_hash,
            "state": run.problem.state,
            "numerics": run.problem.numerics.value,
            "gradients": run.problem.gradients.value,
        },
        "device": {"name": run.device.name, "kind": run.device.kind, "arch": run.device.arch},
        "basis": run.device.basis.value if run.device.basis else "",
        "proposer": run.proposer,
        "model": run.proposer_options.get("model"),
        "params": run.params,
        "seed": run.seed,
        **{name: part.write(run) for name, part in PARTS.items()},
        "withdrawn": [
            {
                "node_id": row.number,
                "parent_node_id": row.parent,
                "created_by": KINDS[Node.Kind(row.kind)],
            }
            for row in cancelled
        ],
        "not_carried": list(LOST),
    }


def _hardware(device: Device) -> str:
    """What the format calls hardware. A model of a GPU must not pass for one."""
    if device.name.startswith(MODELLED_ELSEWHERE):
        return f"MODELLED {device.name.removeprefix(MODELLED_ELSEWHERE)}"
    if device.imported:
        return device.name.removeprefix(EXTERNAL)
    return f"MODELLED {device.arch}" if device.basis is Basis.MODELLED else device.title[:40]


def _texts(run: Run) -> dict[int, dict[str, Any]]:
    rows = Node.objects.filter(run=run, state=Node.State.COMPLETED).values_list(
        "pk", "source", "context", "message", "evaluation__message"
    )
    return {
        pk: {"source": source, "context": context, "error": judged if judged is not None else message}
        for pk, source, context, message, judged in rows
    }


def _figures(run: Run) -> dict[int, dict[str, Any]]:
    """Node -> microseconds of candidate and eager, measured or modelled here; as published with the hardware."""
    found: dict[int, dict[str, Any]] = {}
    subjects = (Subject.CANDIDATE.value, Subject.EAGER.value)
    rows = Measurement.objects.filter(evaluation__nodes__run=run, subject__in=subjects)
    for pk, subject, median_us in rows.values_list("evaluation__nodes__pk", "subject", "median_us"):
        found.setdefault(pk, {})[subject] = median_us
    imported = kinds(lambda traits: traits.imported)
    reported = Evaluation.objects.filter(nodes__run=run, device__kind__in=imported).annotate(node=F("nodes__pk"))
    for pk, report in reported.values_list("node", "report"):
        told = report.get("reported", {})
        found[pk] = {
            "candidate": told.get("runtime_us"),
            "eager": told.get("baseline_time_us"),
            "hardware": told.get("hardware"),
        }
    return found


def _prompts(run: Run) -> dict[int, str]:
    """Node -> prompt of its last call that has one."""
    calls = Proposal.objects.filter(node__run=run).exclude(prompt="").order_by("attempt")
    return dict(calls.values_list("node_id", "prompt"))


def run_stem(run: Run) -> str:
    """`adaexplore_row_softmax_run7`."""
    slug = re.sub(r"[^a-z0-9]+", "_", run.problem.slug.lower()).strip("_")[:60] or "problem"
    return f"adaexplore_{slug}_run{run.pk}"


def run_folder_files(run: Run) -> dict[str, str]:
    """Name -> text of AdaExplore's run folder."""
    return files_of(storable(packed_document(run)))


def run_folder_zip(run: Run) -> tuple[str, bytes]:
    """(file name, bytes): the run folder inside a zip, in a folder of its own."""
    stem = run_stem(run)
    return f"{stem}.zip", zipped({f"{stem}/{name}": text for name, text in run_folder_files(run).items()})


def run_packed(run: Run) -> tuple[str, bytes]:
    """(file name, bytes): the packed JSON, gzipped."""
    text = json.dumps(storable(packed_document(run)), ensure_ascii=False).encode()
    return f"{run_stem(run)}.json.gz", gzip.compress(text, mtime=0)


OF_RUN: dict[str, Callable[[Run], tuple[str, bytes]]] = {"zip": run_folder_zip, "packed": run_packed}
