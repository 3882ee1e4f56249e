"""The stages of a preflight as lines: what is done, what runs, what is still to come."""

from __future__ import annotations

from typing import Any

from django import template

from judge.models import Device
from judge.preflight import Preflight

register = template.Library()

# In the order of judge.bench.admission, which sends one record per stage.
LABELS = {
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
    done = [_plain("The file parses", "ok"), _plain("Imports in the sandbox", _import_state(check))]
    done += [_line(row) for row in check.stages]
    if not check.unfinished and check.state != "new":
        return done
    seen = {row["name"] for row in check.stages}
    order = [name for name in LABELS if name != "baseline" or check.device.kind == Device.Kind.CUDA]
    last = max((place for place, name in enumerate(order) if name in seen), default=-1)
    coming = [_plain(LABELS[name], "pending") for name in order[last + 1 :]]
    if seen and coming and check.state == "running":
        coming[0]["state"] = "running"
    return done + coming


def _import_state(check: Preflight) -> str:
    """The bench reports stages after the import only: any of them means that it went well."""
    if check.stages:
        return "ok"
    if check.state == "running":
        return "failed" if check.stalled else "running"
    return "pending" if check.state in {"new", "queued"} else "failed"


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


def _plain(label: str, state: str) -> dict[str, Any]:
    return {"label": label, "state": state, "detail": "", "fix": "", "wall_ms": None}
