"""Who is compared: presets, policies with else the publication's parameters, and either with changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from search.algorithm.params import ALIASES, POLICY_NAMES, PRESETS, SearchParams, preset_get
from search.lab.simulation import PENDING

PAPER = "paper-l2"  # what all others are compared with, unless something else is named
ALWAYS = (PAPER, "independent", "greedy")
_PENDING = "pending="
USUAL = (PAPER, "paper-l3", "default", "greedy", "independent", "chain", "map_elites")


@dataclass(frozen=True)
class Contender:
    """Parameters under the name they are shown by, and what the tree makes of steps in flight."""

    name: str
    params: SearchParams
    pending: str = "counted"

    def __post_init__(self) -> None:
        if self.pending not in PENDING:
            raise ValueError(f"{self.name}: pending must be one of {', '.join(PENDING)}, not {self.pending!r}.")


def contender_of(text: str) -> Contender:
    """`default` (a preset), `chain` (a policy), or `uct:reward=log,pending=ignored` (either, with changes).

    Raises ValueError with what is expected.
    """
    name, _, changes = text.partition(":")
    pairs = [pair.strip() for pair in changes.split(",") if pair.strip()]
    pending = next((pair.removeprefix(_PENDING) for pair in pairs if pair.startswith(_PENDING)), "counted")
    pairs = [pair for pair in pairs if not pair.startswith(_PENDING)]
    if name in POLICY_NAMES:
        return Contender(text, SearchParams.from_texts(pairs, {"policy": name}), pending)
    if name not in PRESETS and name not in ALIASES:
        known = ", ".join((*PRESETS, *POLICY_NAMES))
        raise ValueError(f"{text!r} is not a policy. Use one of {known}, or uct:reward=log,w=0.1.")
    preset = preset_get(name)
    shown = f"{preset.name}:{changes}" if changes else preset.name
    return Contender(shown, SearchParams.from_texts(pairs, preset.params.to_json()), pending)


def contenders_of(texts: Iterable[str], baseline: str = PAPER) -> tuple[Contender, ...]:
    """One each: the baseline, then in the order named; `paper-l2`, `independent` and `greedy` are always there."""
    found = {contender.name: contender for contender in map(contender_of, (baseline, *texts, *ALWAYS))}
    return tuple(found.values())
