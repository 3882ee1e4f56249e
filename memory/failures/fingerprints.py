"""Failures with the same cause share a fingerprint: stage, kind of error, normalised message and operator.

Pure: no Django, no clock. Source of the idea: failure clusters of AdaExplore's Adapt stage (arXiv 2604.16625).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memory.patterns.messages import cause_of, masked
from memory.patterns.table import recognised

REPORTED = "reported"


@dataclass(frozen=True)
class Fingerprint:
    """What failures of one cause have in common. `text` is the message with its accidents masked.

    A known error has one text whatever its wording: Triton's compiler, its interpreter and its versions word one
    cause in several ways. `pattern` is its code, empty where nobody has named the error.
    """

    stage: str
    kind: str
    operator: str
    pattern: str
    text: str

    @property
    def key(self) -> str:
        """Twelve hexadecimal digits, the same in every database and order."""
        text = self.text.replace("> µs", "> us")  # as sentences had it once: their clusters stay the same
        said = f"pattern:{self.pattern}" if self.pattern else text
        return hashlib.sha256("\x00".join((self.stage, self.kind, said, self.operator)).encode()).hexdigest()[:12]


def fingerprint(stage: str, kind: str, message: str) -> Fingerprint:
    """`kind` is the reason code of the judge or of the proposal, or the verdict where there is none."""
    cause = cause_of(message)
    found = recognised(kind, cause)
    # What others report has no code of a judge: an importer guesses one from the text, which tells nothing more.
    kind = REPORTED if stage == REPORTED else kind
    if found is None:
        return Fingerprint(stage, kind, "", "", masked(cause))
    return Fingerprint(stage, kind, found.operator, found.pattern.code, found.pattern.title)


@dataclass(frozen=True)
class Failing:
    """One failed candidate: its node number, where it failed and what was said."""

    number: int
    stage: str
    reason: str
    message: str


@dataclass(frozen=True)
class Cluster:
    """Failures of one cause. `share` is of all failures given; `numbers` are in order."""

    common: Fingerprint
    example: str
    numbers: tuple[int, ...]
    share: float


def clustered(failures: Iterable[Failing]) -> tuple[Cluster, ...]:
    """Clusters of `failures`, largest first, then by key: the order of the input does not matter."""
    groups: dict[Fingerprint, list[Failing]] = {}
    for failure in failures:
        groups.setdefault(fingerprint(failure.stage, failure.reason, failure.message), []).append(failure)
    total = sum(len(group) for group in groups.values())
    clusters = [_cluster(common, sorted(group, key=lambda f: f.number), total) for common, group in groups.items()]
    return tuple(sorted(clusters, key=lambda c: (-len(c.numbers), c.common.key)))


def _cluster(common: Fingerprint, group: Sequence[Failing], total: int) -> Cluster:
    example = Counter(failure.message for failure in group).most_common(1)[0][0]
    return Cluster(common, example, tuple(failure.number for failure in group), len(group) / total)
