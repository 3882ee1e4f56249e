"""How a search is to use and feed memory, as chosen at its start. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

TRUST = ("reviewed", "auto")


@dataclass(frozen=True)
class MemoryChoice:
    """`uses`: rules go into prompts; `learns`: failures teach. Raises ValueError with a sentence.

    `trust`: "reviewed" takes approved rules only, "auto" proposed ones, too. `threshold`: support that a rule needs;
    `budget_tokens`: room for rules in a prompt; `withhold`: probability of leaving an eligible rule out, to learn
    whether it helps.
    """

    uses: bool = True
    learns: bool = False
    trust: str = "reviewed"
    threshold: int = 3
    budget_tokens: int = 1500
    withhold: float = 0.1

    def __post_init__(self) -> None:
        if self.trust not in TRUST:
            raise ValueError(f"trust must be one of {', '.join(TRUST)}, not {self.trust!r}.")
        for name, least, most in (("threshold", 1, 1000), ("budget_tokens", 0, 100_000)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"{name} must be a whole number from {least} to {most}, not {value!r}.")
        if isinstance(self.withhold, bool) or not isinstance(self.withhold, int | float) or not 0 <= self.withhold <= 1:
            raise ValueError(f"withhold must be a probability from 0 to 1, not {self.withhold!r}.")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; `from_json` is its inverse."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What is missing takes its default. Raises ValueError on unknown names."""
        unknown = sorted(set(data) - {field.name for field in dataclasses.fields(cls)})
        if unknown:
            raise ValueError(f"Unknown memory setting {', '.join(unknown)}.")
        return cls(**data)


OFF = MemoryChoice(uses=False)
