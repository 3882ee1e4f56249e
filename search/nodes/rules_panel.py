"""The rules of a search and of a prompt as pages show them. Frozen at the start: nothing here needs the live view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.prompting.assignment import HEAD_TOKENS, tokens_of
from memory.prompting.models import RunMemory
from memory.prompting.queries import UseLine, memory_of, uses_at
from search.records.models import Node, Run

ARMS = (
    ("shown", "In the prompt"),
    ("withheld", "Withheld on purpose"),
    ("left_out", "Left out: no room"),
)


@dataclass(frozen=True)
class RuleInForce:
    """One frozen rule: `rule` is its row id, None when it is of elsewhere; `lift` in points, None: unknown."""

    rule: int | None
    number: int | None
    text: str
    support: int
    vouched: bool
    lift: float | None
    low: float | None
    high: float | None
    shown: int
    withheld: int


@dataclass(frozen=True)
class RulesPanel:
    """How a search uses memory. `settings` are those of elsewhere for an imported one."""

    memory: RunMemory
    settings: dict[str, Any]
    rules: tuple[RuleInForce, ...]
    tokens: int  # of all rules together, estimated
    elsewhere: bool

    @property
    def withheld_percent(self) -> float:
        return 100 * float(self.settings["withhold"])


def rules_panel(run: Run) -> RulesPanel | None:
    """None for a search of a time before memory. Two queries."""
    memory, rows = memory_of(run.pk)
    if memory is None:
        return None
    names = ("uses", "learns", "trust", "threshold", "budget_tokens", "withhold")
    here = {name: getattr(memory, name) for name in names}
    return RulesPanel(
        memory=memory,
        settings=memory.elsewhere.get("settings", here),
        rules=tuple(_rule(row) for row in rows),
        tokens=HEAD_TOKENS + sum(tokens_of(row["text"]) for row in rows) if rows else 0,
        elsewhere=bool(memory.elsewhere),
    )


def _rule(row: dict[str, Any]) -> RuleInForce:
    score = row["score"]
    points = {name: None if score.get(name) is None else 100 * score[name] for name in ("lift", "low", "high")}
    return RuleInForce(
        rule=row["rule"],
        number=row["number"],
        text=row["text"],
        support=score.get("support") or 0,
        vouched=bool(score.get("vouched")),
        shown=score.get("shown") or 0,
        withheld=score.get("withheld") or 0,
        **points,
    )


def prompt_rules(node: Node) -> list[tuple[str, str, list[UseLine]]]:
    """(arm, title, rules) of a node's prompt, empty arms left out. One query, two for an imported search."""
    found = uses_at(node.pk, node.run_id, node.number)
    groups = [(arm, title, [use for use in found if use.arm == arm]) for arm, title in ARMS]
    return [group for group in groups if group[2]]
