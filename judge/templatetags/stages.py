"""The stages of a preflight as lines: what is done, what runs, what is still to come."""

from __future__ import annotations

from typing import Any

from django import template

from judge.preflight import Preflight

register = template.Library()

# In the order of judge.bench.admission, which sends one record per stage.
LABELS = {
    "parse": "The file parses",
    "import": "Imports in the sandbox",
    "size": "Fits the device",
    "construct": "Model is built",
    "inputs": "Inputs are made",
    "reference": "Reference runs",
    "output": "Output is a tensor",
    "finite": "Output is finite",
    "deterministic": "Same inputs, same output",
    "graph": "Operators are traced",
    "cost": "FLOPs and bytes are counted",
    "worth": "Output depends on the input",
    "baseline": "Eager baseline",
}


@register.filter
def stage_lines(check: Preflight) -> list[dict[str, Any]]:
    """Done stages, then the running one, then the pending ones; only what happened once it is decided."""
    done = [_line(row) for row in check.stages]
    if check.decided or check.state == "failed" or check.stalled:
        return done
    seen = {row["name"] for row in check.stages}
    last = max((place for place, name in enumerate(LABELS) if name in seen), default=-1)
    coming = [_pending(name) for name in list(LABELS)[last + 1 :]]
    if check.state == "running" and coming:
        coming[0]["state"] = "running"
    return done + coming


@register.filter
def stage_label(name: str) -> str:
    """A stage's name for people."""
    return LABELS.get(name, name.replace("_", " ").capitalize())


def _line(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "label": stage_label(str(row["name"])),
        "state": row["state"],
        "detail": row.get("detail", ""),
        "fix": row.get("fix", ""),
        "wall_ms": row.get("wall_ms"),
    }


def _pending(name: str) -> dict[str, Any]:
    return {"label": stage_label(name), "state": "pending", "detail": "", "fix": "", "wall_ms": None}
