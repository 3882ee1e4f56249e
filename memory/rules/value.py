"""What looking at a rule now is worth: the order of the review queue. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

HALF_LIFE_DAYS = 7.0


@dataclass(frozen=True)
class Evidence:
    """What stands behind a rule. `age_s`: since its last failure, None without one; `cost_s`: spent on the
    `priced` ones of them, as nobody knows what the others cost."""

    support: int = 0
    sightings: int = 0
    age_s: float | None = None
    cost_s: float = 0.0
    priced: int = 0
    imported: float = 0.0
    torn: bool = False  # another rule says the opposite
    recheck: bool = False

    @property
    def count(self) -> int:
        return self.sightings

    @property
    def unpriced(self) -> int:
        return self.sightings - self.priced


def review_value(evidence: Evidence) -> float:
    """Expected value of a review, without a unit: only the order counts.

        log2(1 + support) + 2^(-age / 7 days) + log2(1 + cost / 60 s) / 2 + log2(1 + imported) / 10
            + 1 if another rule says the opposite + 1 if it is to be checked again

    Support counts by doublings: the second problem says more than the tenth. A failure of today is likelier to
    come back tomorrow. Cost is what the rule could save. An imported count is somebody else's evidence.
    """
    recent = 0.0 if evidence.age_s is None else 2.0 ** (-max(evidence.age_s, 0.0) / (HALF_LIFE_DAYS * 86_400))
    return (
        math.log2(1 + evidence.support)
        + recent
        + math.log2(1 + max(evidence.cost_s, 0.0) / 60) / 2
        + math.log2(1 + max(evidence.imported, 0.0)) / 10
        + float(evidence.torn)
        + float(evidence.recheck)
    )
