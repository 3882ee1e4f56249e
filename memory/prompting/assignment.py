"""Deals the rules of one prompt: shown, withheld on purpose, left out for want of room. Pure and repeatable.

A rule is withheld by a draw that depends on the search's seed, the node's number and the rule's words alone, so
neither the order in which steps end nor another rule changes it. Two rules of the same words are withheld together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

SHOWN, WITHHELD, LEFT_OUT = "shown", "withheld", "left_out"
CHARS_PER_TOKEN = 3.5  # of English with code in it: real tokenizers need fewer tokens, so the block stays within bounds
LINE_TOKENS = 2  # the bullet and the line's end
HEAD_TOKENS = 60  # the words around the rules, once
REACH = 1.5  # rules are kept up to this many times the room: behind it none comes into a prompt


@dataclass(frozen=True)
class Held:
    """A rule version in force: its row id, what the draw goes by, and what it takes of the budget."""

    version: int
    words: str
    tokens: int


def tokens_of(text: str) -> int:
    """Tokens of one rule's line, estimated from its length: no tokenizer is asked, every model has another."""
    return ceil(len(text) / CHARS_PER_TOKEN) + LINE_TOKENS


def withheld(seed: int, number: int, words: str, probability: float) -> bool:
    """Whether this prompt goes without the rule, to see what it would have changed."""
    digest = hashlib.sha256(f"withhold:{seed}:{number}:{words}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 < probability


def dealt(
    rules: Iterable[Held], *, seed: int, number: int, probability: float, budget_tokens: int
) -> list[tuple[int, str]]:
    """(version, arm) of each rule in order. Only a rule that has room is drawn for: both arms had the same chance."""
    room, arms = budget_tokens - HEAD_TOKENS, []
    for rule in rules:
        if rule.tokens > room:
            arms.append((rule.version, LEFT_OUT))
        elif withheld(seed, number, rule.words, probability):
            arms.append((rule.version, WITHHELD))
        else:
            arms.append((rule.version, SHOWN))
            room -= rule.tokens
    return arms


def within_reach(tokens: Sequence[int], *, probability: float, budget_tokens: int) -> int:
    """How many of these rules, in order, could ever come into a prompt, with much to spare for withheld ones."""
    room = REACH * budget_tokens / max(1 - probability, 0.1)
    for at, cost in enumerate(tokens):
        room -= cost
        if room < 0:
            return at
    return len(tokens)
