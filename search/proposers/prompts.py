"""Prompts: text templates in `templates/prompts/`, named by content hash, with everything untrusted fenced as data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from django.template import Context, Engine

from adaexplore_site.core.text import fenced, one_line
from search.proposers.protocol import Exhibit, Task

__all__ = ["Prompt", "build_prompt", "build_repair", "fenced"]

FOLDER = Path(__file__).resolve().parent.parent.parent / "templates" / "prompts"

MESSAGE_CHARS = 4000
GRAPH_LINES = 80
RULE_CHARS = 1000


@dataclass(frozen=True)
class Prompt:
    """What is sent: `system` and `user` texts. `template` names the files and their contents, for the record."""

    system: str
    user: str
    template: str

    @property
    def text(self) -> str:
        """Both parts as one text, as recorded and as shown to a person."""
        return f"{self.system}\n\n{self.user}"

    def messages(self) -> list[dict[str, str]]:
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]


def build_prompt(task: Task) -> Prompt:
    """The prompt of one step. Contains nothing but what `task` holds."""
    name = f"{task.kind}.txt"
    shown_last = bool(task.exhibits) and task.exhibits[-1].source == task.base
    user = _render(
        name,
        {
            "title": one_line(task.problem_title),
            "problem": fenced(task.problem_source, "python"),
            "operators": fenced(_operators(task.graph)) if task.graph else "",
            "device": device_lines(task.device),
            "exhibits": [_exhibit(exhibit) for exhibit in task.exhibits if exhibit.source],
            "base": fenced(task.base, "python") if task.base and not shown_last else "",
            "notes": [one_line(note, 2000) for note in task.notes],
            "rules": fenced(rule_lines(task)) if task.rules else "",
        },
    )
    return Prompt(_render("system.txt", {}), user, f"{_named(name)} {_named('system.txt')}")


def build_repair(task: Task, problem: str) -> Prompt:
    """The one answer to patches that did not match; it follows the first prompt and its reply."""
    user = _render("repair.txt", {"problem": fenced(problem), "base": fenced(task.base or "", "python")})
    return Prompt("", user, f"{_named('repair.txt')} {_named('system.txt')}")


def rule_lines(task: Task) -> str:
    """Rules out of memory, one line each, whatever their text holds."""
    return "\n".join(f"- {one_line(rule.text, RULE_CHARS)}" for rule in task.rules)


def device_lines(device: Mapping[str, Any]) -> list[str]:
    """The plain facts of a device, one line each; nested ones are left out."""
    return [
        f"{one_line(str(key), 60)}: {one_line(str(value))}"
        for key, value in device.items()
        if isinstance(value, str | int | float) and value != ""
    ]


def verdict_line(exhibit: Exhibit) -> str:
    """The verdict in words; a speedup always with its basis."""
    if exhibit.speedup is None:
        return one_line(exhibit.verdict)
    basis = {"modelled": "by a time model, not measured", "reported": "reported elsewhere"}.get(
        exhibit.basis, "measured"
    )
    return f"{one_line(exhibit.verdict)}, {exhibit.speedup:.3g} times as fast as eager PyTorch ({basis})"


def _exhibit(exhibit: Exhibit) -> dict[str, Any]:
    return {
        "number": exhibit.number,
        "verdict": verdict_line(exhibit),
        "source": fenced(exhibit.source, "python"),
        "message": fenced(exhibit.message, limit=MESSAGE_CHARS) if exhibit.message else "",
    }


def _operators(graph: Mapping[str, Any]) -> str:
    """The op graph as lines `name = op(target) -> [shape] dtype`."""
    lines = []
    for node in graph.get("nodes", ()):
        out = node.get("out") or {}
        result = f" -> {list(out['shape'])} {out['dtype']}" if out else ""
        target = f"({node['target']})" if node.get("target") else ""
        lines.append(one_line(f"{node['name']} = {node['op']}{target}{result}"))
    if len(lines) > GRAPH_LINES:
        lines[GRAPH_LINES:] = [f"and {len(lines) - GRAPH_LINES} more"]
    return "\n".join(lines)


@cache
def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _named(name: str) -> str:
    return f"{name}@{hashlib.sha256(_text(name).encode()).hexdigest()[:12]}"


def _render(name: str, values: dict[str, Any]) -> str:
    template = Engine(autoescape=False).from_string(_text(name))
    return template.render(Context(values, autoescape=False)).strip() + "\n"
