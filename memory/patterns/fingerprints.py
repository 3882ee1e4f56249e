"""Failures with the same cause share a fingerprint: stage, kind of error, normalised message and operator. Pure.

Source of the idea: failure clusters of AdaExplore's Adapt stage (arXiv 2604.16625).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from memory.patterns.messages import cause_of, masked
from memory.patterns.table import recognised

REPORTED = "reported"


@dataclass(frozen=True)
class Fingerprint:
    """What failures of one cause have in common. `text` is the message with its accidents masked.

    A known error has one text whatever its wording: Triton's compiler, its interpreter and its versions word one
    cause in several ways. `pattern` is its code, empty for an unknown error.
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
