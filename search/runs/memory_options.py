"""The options of memory on a command line, the same for every command that starts searches."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from memory.prompting.choices import MemoryChoice

MODES = ("off", "reviewed", "auto")
_DEFAULT = MemoryChoice()


def memory_arguments(parser: ArgumentParser) -> None:
    """Add them to a parser."""
    group = parser.add_argument_group("memory")
    group.add_argument(
        "--memory",
        default=_DEFAULT.trust,
        choices=MODES,
        help="rules in prompts: approved ones (reviewed), proposed ones with enough support too (auto), or none (off)",
    )
    group.add_argument("--learn", action="store_true", help="its failures propose rules")
    group.add_argument("--rule-threshold", type=int, default=_DEFAULT.threshold, help="problems behind a rule")
    group.add_argument("--rule-tokens", type=int, default=_DEFAULT.budget_tokens, help="room for rules in a prompt")
    group.add_argument("--rule-withhold", type=float, default=_DEFAULT.withhold, help="probability of leaving one out")


def memory_chosen(options: Mapping[str, Any]) -> MemoryChoice:
    """The choice in parsed options. Raises ValueError with a sentence."""
    uses = options["memory"] != "off"
    return MemoryChoice(
        uses=uses,
        learns=options["learn"],
        trust=options["memory"] if uses else _DEFAULT.trust,
        threshold=options["rule_threshold"],
        budget_tokens=options["rule_tokens"],
        withhold=options["rule_withhold"],
    )
