"""The list of winners as JSON and CSV: every number with interval, n and basis; who is tied is no winner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adaexplore_site.core.downloads import csv_text, safe
from judge.evaluations.measures import BESIDE_COLUMNS, basis_word, beside_columns
from search.kernels.winners import Kernel, Winner

MOST = 5_000
_NUMBERS = ("speedup", "low", "high", "n", "basis", *BESIDE_COLUMNS)


def winners_json(rows: Iterable[Winner]) -> list[dict[str, Any]]:
    """One entry a problem and device, or GPU of a device class."""
    return [
        {
            "problem": row.problem.slug,
            "problem_sha256": row.problem.source_hash,
            "degenerate": row.degenerate,
            "device": row.device.name,
            "gpu": row.gpu or None,
            "precision": row.policy.precision.value,
            "dtype": row.policy.dtype,
            "decided": row.decided,
            "beats_pytorch": row.beats,
            "leader": _kernel(row.leader),
            "tied": [_kernel(one) for one in row.tied],
            "tied_count": row.tied_count,
            "tolerance": None if row.tolerance is None else dict(zip(("error", "allowed"), row.tolerance, strict=True)),
            "sealed_check": row.sealed or None,
            "toolchain": row.leader.evaluation.toolchain,
            "judged_at": row.leader.evaluation.created_at.isoformat(),
        }
        for row in rows
    ]


def winners_csv(rows: Iterable[Winner]) -> str:
    """One line a problem and device, or GPU of a device class."""
    places = ("problem", "degenerate", "device", "precision", "dtype", "decided", "beats_pytorch", "tied_with")
    lines: list[list[Any]] = [[*places, "kernel", *_NUMBERS, "audit", "candidate_hash", "judged_at", "gpu"]]
    for row in winners_json(rows):
        leader = row["leader"]
        here = [safe(row["problem"]), row["degenerate"], safe(row["device"]), row["precision"], row["dtype"] or ""]
        numbers = ["" if leader[name] is None else leader[name] for name in _NUMBERS]
        last = [leader["audit"], leader["candidate_hash"], row["judged_at"], safe(row["gpu"] or "")]
        lines.append(
            [*here, row["decided"], row["beats_pytorch"], row["tied_count"], leader["kernel"], *numbers, *last]
        )
    return csv_text(lines)


def _kernel(one: Kernel) -> dict[str, Any]:
    measure = one.measure
    return {
        "kernel": f"{one.node.run_id}.{one.node.number}",
        "candidate_hash": one.evaluation.candidate_hash,
        "speedup": measure.value,
        "low": measure.low,
        "high": measure.high,
        "n": measure.n,
        "basis": basis_word(measure.basis),
        **beside_columns(measure),
        "audit": one.evaluation.audit or "none",
        "assisted": one.node.touched,
    }
