"""An adapt run as data: one document with everything, and a table with a line per task."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from typing import Any

from memory.adapt.models import AdaptRun
from search.batches.adapt_rows import TaskRow, adapt_rows, effect_read, learned_by, task_rows
from search.batches.adapt_spending import Spent, spent_of


def adapt_document(adapt: AdaptRun) -> dict[str, Any]:
    """Progress, what was learned, cost and effect as plain JSON."""
    rows = task_rows(adapt)
    progress = adapt_rows([adapt])[0].progress
    return {
        "id": adapt.pk,
        "title": adapt.title,
        "state": adapt.state,
        "stop_reason": adapt.stop_reason,
        "device": adapt.device.name,
        "proposer": adapt.proposer,
        "proposer_options": adapt.proposer_options,
        "composer": adapt.composer,
        "transfer_of": adapt.transfer_of_id,
        "seed": adapt.seed,
        "tasks": adapt.tasks,
        "steps": adapt.steps,
        "control_steps": adapt.control_steps,
        "memory": adapt.memory,
        "limits": adapt.limits,
        "progress": {**asdict(progress), "refusals": dict(progress.refusals)},
        "learned": asdict(learned_by(adapt)),
        "spent": _spent(spent_of(adapt)),
        "effect": effect_read(adapt, rows).to_json(),
        "entries": [_entry(row) for row in rows],
    }


def _spent(spent: Spent) -> dict[str, Any]:
    return {**asdict(spent), "usd": str(spent.usd)}


def _entry(row: TaskRow) -> dict[str, Any]:
    task, shown, control = row.task, row.outcome.shown, row.outcome.control
    return {
        "place": task.place,
        "problem": row.outcome.name,
        "chain": task.recipe.get("chain", []),
        "state": row.state,
        "reason": task.reason,
        "run": task.run_id,
        "control": task.control_id,
        "rules": row.rules,
        "told": row.told,
        "passed": row.passed,
        "first_with": shown.first,
        "first_without": control.first,
        "attempts_with": list(shown.attempts),
        "attempts_without": list(control.attempts),
    }


COLUMNS = (
    "place",
    "problem",
    "state",
    "rules",
    "told",
    "passed",
    "first_with",
    "first_without",
    "attempts_with",
    "attempts_without",
    "reason",
)


def adapt_csv(document: dict[str, Any]) -> str:
    """One line per task. Attempts as a text of p (passed), f (did not) and x (nobody's fault)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in document["entries"]:
        writer.writerow([_cell(entry[name]) for name in COLUMNS])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return "".join("x" if one is None else "p" if one else "f" for one in value)
    if isinstance(value, bool):
        return int(value)
    text = "" if value is None else value
    return f"'{text}" if isinstance(text, str) and text[:1] in ("=", "+", "-", "@") else text
