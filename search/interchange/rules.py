"""The rules a search worked with, for its exports: words, scope, why each stood where it stood, and every use."""

from __future__ import annotations

from typing import Any

from memory.prompting.freezing import choice_of
from memory.prompting.models import RunMemory
from memory.prompting.queries import arms_of
from search.records.models import Run


def memory_document(run: Run) -> dict[str, Any] | None:
    """As `recorded_memory.memory_read` takes it; None when the search was started without memory."""
    memory = RunMemory.objects.filter(run=run.pk).first()
    if memory is None:
        return None
    if told := memory.elsewhere:
        settings = {**told["settings"], "toolchain": memory.toolchain}
        return {**settings, "beyond": told["beyond"], "rules": told["rules"], "in_prompts": told["uses"]}
    settings = {**choice_of(memory).to_json(), "toolchain": memory.toolchain}
    rows = list(memory.rules.select_related("version").order_by("place"))
    places = {row.version_id: row.place for row in rows}
    rules = [
        {
            "place": row.place,
            "text": row.version.text,
            "version": row.version.number,
            "scope": {name: getattr(row.version, f"scope_{name}") for name in ("family", "arch", "triton")},
            "score": row.score,
        }
        for row in rows
    ]
    prompts: dict[str, dict[str, list[int]]] = {}
    for number, arms in arms_of(run.pk).items():
        for version, arm in arms:
            prompts.setdefault(str(number), {}).setdefault(arm, []).append(places[version])
    return {**settings, "beyond": memory.beyond, "rules": rules, "in_prompts": prompts}
