"""The stages of a preflight as lines: what is done, what runs, what is still to come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import template
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from judge.problems.preflight import Preflight
from judge.values import Gradients

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

register = template.Library()

# In the order of judge.bench.admission.admission, which sends one record per stage.
LABELS = {
    "import": _("Imports in the sandbox"),
    "shapes": _("Every operator has work, by its shape"),
    "size": _("Fits the device"),
    "construct": _("Model is built"),
    "inputs": _("Inputs are made"),
    "reference": _("Reference runs"),
    "output": _("Output is a tensor"),
    "finite": _("Output is finite"),
    "deterministic": _("Same inputs, same output"),
    "graph": _("Operators are traced"),
    "gradients": _("Forward has the gradients that are asked for"),
    "cost": _("FLOPs and bytes are counted"),
    "worth": _("Output depends on what goes in"),
    "algebra": _("Every operator shows in the output"),
    "null": _("Empty outputs are distinguished from correct ones"),
    "baseline": _("Eager baseline"),
    "cases": _("Every declared case runs"),
    "sealed": _("Sealed cases are derived"),
    "baselines": _("Other baselines are timed"),
}


@register.filter
def stage_lines(check: Preflight) -> list[dict[str, Any]]:
    """Done stages, then the running one, then the pending ones; only what happened once it is decided."""
    done = [_plain(gettext("The file parses"), "ok")]
    if not any(row["name"] == "import" for row in check.stages):  # sent only when the import itself fails
        done.append(_plain(LABELS["import"], _import_state(check)))
    done += [_line(row) for row in check.stages]
    if not check.unfinished and check.state != "new":
        return done
    seen = {row["name"] for row in check.stages}
    left_out = {"import"} | (set() if check.device.is_gpu else {"baseline", "baselines"})
    left_out |= {"gradients"} if check.problem.gradients is Gradients.NONE else set()
    order = [name for name in LABELS if name not in left_out]
    last = max((place for place, name in enumerate(order) if name in seen), default=-1)
    coming = [_plain(LABELS[name], "pending") for name in order[last + 1 :]]
    if seen and coming and check.state == "running":
        coming[0]["state"] = "running"
    return done + coming


def _import_state(check: Preflight) -> str:
    """Without a stage of its own, the import went well as soon as any later stage was sent."""
    if check.stages:
        return "ok"
    if check.state == "running":
        return "failed" if check.stalled else "running"
    return "pending" if check.state in {"new", "queued", "stopped"} else "failed"


@register.filter
def said_by_stage(check: Preflight) -> bool:
    """Whether a line of the list already tells the whole message, so that it need not stand there twice."""
    message = str(check.report.get("message", ""))
    said = (f"{row.get('detail', '')}; {row.get('fix', '')}" for row in check.stages if row.get("detail"))
    return any(message in text or message.endswith(text.partition("; ")[0]) for text in said)


@register.filter
def stage_label(name: str) -> StrOrPromise:
    """A stage's name for people."""
    return LABELS.get(name, name.replace("_", " ").capitalize())


def _line(row: dict[str, Any]) -> dict[str, Any]:
    fix = str(row.get("fix") or "")
    return {
        "label": stage_label(str(row["name"])),
        "state": row["state"],
        "detail": row.get("detail", ""),
        "fix": fix[:1].upper() + fix[1:],
        "wall_ms": row.get("wall_ms") or None,  # 0 is a step that was cut off, not one that took no time
    }


def _plain(label: StrOrPromise, state: str) -> dict[str, Any]:
    return {"label": label, "state": state, "detail": "", "fix": "", "wall_ms": None}
