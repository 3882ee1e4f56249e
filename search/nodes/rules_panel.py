"""The rules of a search and of a prompt as pages show them. Frozen at the start: nothing here needs the live view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory.prompting.assignment import CONTROL, NO_ROOM, TREATMENT, PromptRule, tokens_of
from memory.prompting.models import RunMemory
from memory.prompting.queries import memory_of, uses_at
from search.records.models import Node, Run

ARMS = (
    (TREATMENT, "In the prompt"),
    (CONTROL, "Withheld at random"),
    (NO_ROOM, "Left out: no room"),
)


@dataclass(frozen=True)
class RulesPanel:
    """How a search uses memory. `settings` are those of elsewhere for an imported one."""

    memory: RunMemory
    settings: dict[str, Any]
    rules: tuple[PromptRule, ...]
    tokens: int  # of all rules together, estimated
    elsewhere: bool

    @property
    def withheld_percent(self) -> float:
        return 100 * float(self.settings["withhold"])


def rules_panel(run: Run) -> RulesPanel | None:
    """None for a search of a time before memory. Two queries."""
    memory, rules = memory_of(run.pk)
    if memory is None:
        return None
    names = ("uses", "learns", "trust", "threshold", "budget_tokens", "withhold")
    here = {name: getattr(memory, name) for name in names}
    return RulesPanel(
        memory=memory,
        settings=memory.elsewhere.get("settings", here),
        rules=rules,
        tokens=tokens_of(rules),
        elsewhere=bool(memory.elsewhere),
    )


def prompt_rules(node: Node) -> list[tuple[str, str, list[PromptRule]]]:
    """(arm, title, rules) of a node's prompt, empty arms left out. One query, two for an imported search."""
    found = uses_at(node.pk, node.run_id, node.number)
    groups = [(arm, title, [use for use in found if use.arm == arm]) for arm, title in ARMS]
    return [group for group in groups if group[2]]
