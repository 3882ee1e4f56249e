"""The rules of one prompt: which are in it, which are withheld at random, which have no room. Pure and repeatable.

A rule is withheld by a draw that depends on the search's seed, the node's number and the rule's text alone, so
neither the order in which steps end nor another rule changes it. Two rules of the same text are withheld together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

TREATMENT, CONTROL, NO_ROOM = "shown", "withheld", "left_out"  # arms, as they are stored and exported
CHARS_PER_TOKEN = 3.5  # of English with code in it: real tokenizers need fewer tokens, so the block stays within bounds
LINE_TOKENS = 2  # the bullet and the line's end
HEAD_TOKENS = 60  # the words around the rules, once
REACH = 1.5  # rules are kept up to this many times the room: behind it none comes into a prompt


@dataclass(frozen=True)
class PromptRule:
    """One rule version on its way into a prompt, as searches, proposers, pages and exports use it.

    `rule` and `version` are row ids, `number` is the version's: 0 for a rule of an imported search. `pattern` is the
    code of the known error that it speaks of. `text_hash` is what the draw goes by. `score` says why it has its place:
    lift and support as they were when it was frozen. `arm` is set where it speaks of one prompt.
    """

    text: str
    pattern: str = ""
    rule: int = 0
    version: int = 0
    number: int = 0
    text_hash: str = ""
    score: Mapping[str, Any] = field(default_factory=dict, hash=False)
    arm: str = ""

    @property
    def tokens(self) -> int:
        """Tokens of its line, estimated from its length: no tokenizer is asked, every model has another."""
        return ceil(len(self.text) / CHARS_PER_TOKEN) + LINE_TOKENS


@dataclass(frozen=True)
class FrozenRules:
    """The rules of one search in the order of use, and how they are assigned to arms. Empty when it uses none."""

    rules: tuple[PromptRule, ...] = ()
    withhold: float = 0.0
    budget_tokens: int = 0

    def arms(self, *, seed: int, number: int) -> list[tuple[PromptRule, str]]:
        """The arm of each rule at one node. Only a rule that has room is drawn for: both arms had the same chance."""
        room, arms = self.budget_tokens - HEAD_TOKENS, []
        for rule in self.rules:
            if rule.tokens > room:
                arms.append((rule, NO_ROOM))
            elif in_control(seed, number, rule.text_hash, self.withhold):
                arms.append((rule, CONTROL))
            else:
                arms.append((rule, TREATMENT))
                room -= rule.tokens
        return arms


def in_control(seed: int, number: int, text_hash: str, probability: float) -> bool:
    """Whether this prompt goes without the rule, to see what it would have changed."""
    digest = hashlib.sha256(f"withhold:{seed}:{number}:{text_hash}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 < probability


def within_reach(tokens: Sequence[int], *, probability: float, budget_tokens: int) -> int:
    """How many of these rules, in order, could ever come into a prompt, with much to spare for withheld ones."""
    room = REACH * budget_tokens / max(1 - probability, 0.1)
    for at, cost in enumerate(tokens):
        room -= cost
        if room < 0:
            return at
    return len(tokens)


def tokens_of(rules: Iterable[PromptRule]) -> int:
    """Estimated tokens of a block with all of these rules."""
    found = sum(rule.tokens for rule in rules)
    return HEAD_TOKENS + found if found else 0
