"""Failures with the same cause share a fingerprint: stage, reason code and the message with its accidents masked.

Pure: no Django, no clock. Source of the idea: failure clusters of AdaExplore's Adapt stage (arXiv 2604.16625).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_MESSAGE = 300

# Order matters: a path holds numbers, a hexadecimal address holds digits.
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),  # terminal colours
    (re.compile(r"(?:/[\w.+-]+){2,}"), "<path>"),
    (re.compile(r"\b[\w-]+\.py:\d+(?::\d+)?"), "<line>"),
    (re.compile(r"\b(?:line|at) \d+(?::\d+)?", re.IGNORECASE), "<line>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"(['\"`])(?:(?!\1).){1,120}\1"), "<name>"),
    (re.compile(r"\b[a-z_][A-Za-z0-9]*_[A-Za-z0-9_]+\b"), "<name>"),  # snake_case: kernels, arguments
    (re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b"), "<name>"),  # BLOCK_SIZE and friends
    (re.compile(r"[-+]?\b\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\b%?"), "<n>"),
    (re.compile(r"[\[(]\s*<n>(?:\s*[,x×*]\s*<n>)*\s*,?\s*[\])]"), "<n>"),  # shapes of any rank
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Failure:
    """One failed candidate: its node number, where it failed and what was said."""

    number: int
    stage: str
    reason: str
    message: str


@dataclass(frozen=True)
class Cluster:
    """Failures of one cause. `share` is of all failures given; `numbers` are in order."""

    fingerprint: str
    stage: str
    reason: str
    pattern: str
    example: str
    numbers: tuple[int, ...]
    share: float


def masked(message: str) -> str:
    """The first line that says something, names, numbers, paths and lines masked; at most 300 characters."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    text = lines[0] if lines else ""
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text.strip()[:MAX_MESSAGE]


def fingerprint(stage: str, reason: str, message: str) -> str:
    """Twelve hexadecimal digits, the same for every failure of the same stage, reason and masked message."""
    return hashlib.sha256("\x00".join((stage, reason, masked(message))).encode()).hexdigest()[:12]


def clustered(failures: Iterable[Failure]) -> tuple[Cluster, ...]:
    """Clusters of `failures`, largest first, then by fingerprint: the order of the input does not matter."""
    groups: dict[str, list[Failure]] = {}
    for failure in failures:
        groups.setdefault(fingerprint(failure.stage, failure.reason, failure.message), []).append(failure)
    total = sum(len(group) for group in groups.values())
    clusters = [_cluster(key, sorted(group, key=lambda f: f.number), total) for key, group in groups.items()]
    return tuple(sorted(clusters, key=lambda c: (-len(c.numbers), c.fingerprint)))


def _cluster(key: str, group: Sequence[Failure], total: int) -> Cluster:
    example = Counter(failure.message for failure in group).most_common(1)[0][0]
    first = group[0]
    return Cluster(
        fingerprint=key,
        stage=first.stage,
        reason=first.reason,
        pattern=masked(example),
        example=example,
        numbers=tuple(failure.number for failure in group),
        share=len(group) / total,
    )
