"""Under what conditions an evaluation was judged: numerics, gradients, baselines left out, environment, sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from judge.evaluations.beside import SUBJECTS, gradients_text, numerics_text
from judge.evaluations.cases import ROWS
from judge.evaluations.models import Evaluation
from judge.sources.highlighting import visible
from judge.templatetags.units import byte_size
from judge.values import ALTERNATIVES, Gradients

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

LEFT_OUT = "left out: "


def numerics(evaluation: Evaluation) -> tuple[str, list[tuple[str, str]]]:
    """(what they mean, torch's switches as they stood in the judge's process); the switches are unknown of old ones."""
    found = evaluation.report.get("environment", {}).get("numerics")
    rows = found if isinstance(found, dict) else {}
    shown = [(visible(str(name)), visible(str(value))[:40]) for name, value in rows.items() if name != "precision"]
    return numerics_text(evaluation.problem.numerics), shown[:ROWS]


def gradients(evaluation: Evaluation) -> str:
    """Of what gradients were asked, in words; empty where forward alone was judged."""
    asked = evaluation.problem.gradients
    return "" if asked is Gradients.NONE else gradients_text(asked)


def left_out(evaluation: Evaluation) -> list[tuple[StrOrPromise, str]]:
    """Baselines without a time, each with the reason."""
    found = evaluation.report.get("environment", {}).get("baselines")
    notes = found if isinstance(found, dict) else {}
    return [
        (SUBJECTS[one.subject], visible(str(notes[one.name]))[:2000].removeprefix(LEFT_OUT))
        for one in ALTERNATIVES
        if str(notes.get(one.name, "")).startswith(LEFT_OUT)
    ]


def environment(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Plain facts of the environment; sandbox, numerics and baselines have tables of their own."""
    found = {**evaluation.report.get("environment", {}), **({"GPU": evaluation.gpu} if evaluation.gpu else {})}
    return [
        (visible(str(name).replace("_", " ")), visible(_fact(str(name), value))[:2000])
        for name, value in found.items()
        if name not in {"sandbox", "children", "numerics", "baselines", "process_luck"} and value is not None
    ]


def _fact(name: str, value: object, depth: int = 2) -> str:
    """One line: a mapping as `name: value; ...` down to `depth`, a number whose name ends with `_bytes` as a size."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and name.endswith("_bytes"):
        return byte_size(value)
    if not isinstance(value, Mapping) or not depth:
        return str(value)
    suffix = "_bytes" if name.endswith("_bytes") else ""
    parts = [(str(key), _fact(f"{key}{suffix}", one, depth - 1)) for key, one in value.items() if one not in (None, {})]
    said = "; ".join(f"{key.removesuffix('_bytes').replace('_', ' ')}: {text}" for key, text in parts)
    return said if depth == 2 else f"({said})"


@dataclass(frozen=True)
class Layer:
    """A layer of the sandbox: its states, each with the processes that reported it ("" when all did)."""

    name: str
    states: tuple[tuple[str, str], ...]


def sandbox(found: dict[str, Any]) -> list[Layer]:
    """Layers of an environment's `children`, else of its `sandbox`."""
    children = {str(name): layers for name, layers in (found.get("children") or {}).items() if layers}
    if not children and found.get("sandbox"):
        children = {"": found["sandbox"]}
    layers: dict[str, dict[str, list[str]]] = {}
    for child, states in children.items():
        for name, state in states.items():
            layers.setdefault(str(name), {}).setdefault(str(state), []).append(child)
    return [
        Layer(name, tuple((state, "" if len(states) == 1 else ", ".join(who)) for state, who in states.items()))
        for name, states in layers.items()
    ]
