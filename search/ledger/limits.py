"""The limits of a run: a frozen value stored on it, checked once. `None` is no limit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, Self

MAX_STEPS = 10_000  # of a new run
LONGEST = 1_000_000  # an imported or extended one may be longer

# name -> (least, greatest) allowed value
_RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "steps": (1, LONGEST),
        "evaluations": (1, 1_000_000),
        "device_s": (1, 1e8),
        "tokens": (1, 10**12),
        "usd": (0.000001, 1e9),
        "wall_s": (1, 1e8),
        "stale_steps": (1, LONGEST),
        "target_speedup": (0.01, 1e6),
        "roofline_share": (0.01, 1.0),
        "step_device_s": (0.001, 1e6),
        "step_tokens": (1, 10**9),
        "step_usd": (0.000001, 1e6),
    }
)
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "steps": "The budget of steps",
        "evaluations": "The limit of evaluations",
        "device_s": "The limit of device seconds",
        "tokens": "The limit of tokens",
        "usd": "The limit of money (US dollars)",
        "wall_s": "The limit of wall-clock seconds",
        "stale_steps": "Steps without improvement",
        "target_speedup": "The target speedup",
        "roofline_share": "The share of the roofline",
        "step_device_s": "Device seconds held for a step",
        "step_tokens": "Tokens held for a step",
        "step_usd": "Money held for a step (US dollars)",
    }
)


class BadLimit(ValueError):
    """A limit that cannot be; `name` is the field, "" where the sentence is about several."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


ADDABLE = ("steps", "evaluations", "device_s", "tokens", "usd", "wall_s", "stale_steps")


@dataclass(frozen=True)
class RunLimits:
    """What a run may use at most, and when it has reached its goal.

    Hard limits, held by reserving before spending: `steps` told nodes, `evaluations` on the device (reused verdicts not
    counted), `device_s` seconds of the device's worker, `tokens` in and out, `usd`. `wall_s` counts from the start,
    pauses included; after it nothing new begins. Goals: no new best in the last `stale_steps` told steps, an audited
    best of at least `target_speedup`, or one at `roofline_share` (0..1) of the problem's bound on the device.
    `step_device_s`, `step_tokens` and `step_usd` are held for every step in flight; a larger step of the same run
    raises what is held for the next ones. Raises BadLimit with a sentence for a value out of range.
    """

    steps: int
    evaluations: int | None = None
    device_s: float | None = None
    tokens: int | None = None
    usd: Decimal | None = None
    wall_s: float | None = None
    stale_steps: int | None = None
    target_speedup: float | None = None
    roofline_share: float | None = None
    step_device_s: float = 60.0
    step_tokens: int = 40_000
    step_usd: Decimal | None = None

    def __post_init__(self) -> None:
        for name, (least, greatest) in _RANGES.items():
            value = _typed(name, getattr(self, name))
            if value is None and name != "steps":
                continue
            if value is None or not _finite(value) or not least <= value <= greatest:
                raise BadLimit(f"{_WORDS[name]} must be from {least:g} to {greatest:g}, not {value}.", name)
            object.__setattr__(self, name, value)
        if self.usd is not None and self.step_usd is None:
            raise BadLimit("A limit of money needs the amount to hold for a step: set step_usd.", "step_usd")
        for name in ("device_s", "tokens", "usd"):
            limit, step = getattr(self, name), getattr(self, f"step_{name}")
            if limit is not None and limit < step:
                raise BadLimit(
                    f"{_WORDS[name]} ({limit}) is below what is held for a single step ({step}): raise the limit, or "
                    f"lower what a step may need.",
                    name,
                )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types without `steps`, which has a column of its own; money as text. No limit is left out."""
        plain = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        plain.pop("steps")
        return {name: str(value) if isinstance(value, Decimal) else value for name, value in plain.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, steps: int) -> Self:
        """Limits from a mapping. Raises BadLimit on unknown names and on values out of range."""
        unknown = sorted(set(data) - set(_RANGES))
        if unknown:
            raise BadLimit(f"Unknown limit {', '.join(unknown)}. Known: {', '.join(_RANGES)}.")
        return cls(**{**data, "steps": steps})

    def extended(self, delta: Mapping[str, Any]) -> Self:
        """These limits with `delta` added. Raises ValueError for what cannot be added, or where there is no limit."""
        if not delta:
            raise ValueError(f"Specify what to add: {', '.join(ADDABLE)}.")
        changed: dict[str, Any] = {}
        for name, text in delta.items():
            if name not in ADDABLE:
                raise ValueError(f"{name} cannot be added to a budget. Choose from: {', '.join(ADDABLE)}.")
            amount, present = _typed(name, text), getattr(self, name)
            if amount is None or not _finite(amount) or amount <= 0:
                raise ValueError(f"The amount added to {name} must be more than 0, not {text}.")
            if present is None:
                raise ValueError(f"This search has no limit of {name}; there is nothing to add to.")
            changed[name] = present + amount
        return dataclasses.replace(self, **changed)


def _typed(name: str, value: Any) -> Any:
    """The value as its field holds it; texts are read. Raises BadLimit with a sentence."""
    if value is None or value == "":
        return None
    kind = Decimal if name.endswith("usd") else int if name in _WHOLE else float
    if isinstance(value, bool) or (kind is int and isinstance(value, float) and value != int(value)):
        raise BadLimit(f"{_WORDS[name]} must be a whole number, not {value!r}.", name)
    try:
        return kind(str(value)) if kind is Decimal else kind(value)
    except (ValueError, TypeError, OverflowError, InvalidOperation):
        whole = "whole " if kind is int else ""
        raise BadLimit(f"{_WORDS[name]} must be a {whole}number, not {value!r}.", name) from None


def _finite(value: Any) -> bool:
    """Whole numbers always are, also those that are larger than any float."""
    return isinstance(value, int) or math.isfinite(value)


_WHOLE = ("steps", "evaluations", "tokens", "stale_steps", "step_tokens")


def limits_from_texts(pairs: Iterable[str]) -> dict[str, str]:
    """Limits from `name=value` texts, as typed on a command line. Raises ValueError with the names there are."""
    names = [name for name in _RANGES if name != "steps"]
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name not in names:
            raise ValueError(f"{pair!r} is not name=value with a name out of {', '.join(names)}.")
        found[name] = text
    return found
