"""Named settings: the publication's, that of its Adapt stage, and ours (reasons and figures: ADR 19)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from search.algorithm.params import SearchParams


@dataclass(frozen=True)
class Preset:
    """Parameters with a name. `title` says in a few words whose they are, `steps` how many its source spends."""

    name: str
    title: str
    params: SearchParams
    steps: int = 50


_ALL = (
    Preset("paper-l2", "published, KernelBench level 2", SearchParams()),
    Preset("paper-l3", "published, KernelBench level 3", SearchParams(rho=0.5)),
    Preset("default", "ours, tuned in simulations", SearchParams(reward="log", alpha=1.0)),
    Preset("adapt", "published, short searches to learn from failures", SearchParams(), 25),
    Preset(
        "first-release",
        "first release of the published code",
        SearchParams(w=0.25, alpha=1.0, p_large=0.25, pool_extra_max=3, pool_extra_p=0.5),
        25,
    ),
)
PRESETS: Mapping[str, Preset] = MappingProxyType({preset.name: preset for preset in _ALL})
ALIASES: Mapping[str, str] = MappingProxyType({"paper": "paper-l2", "level2": "paper-l2", "level3": "paper-l3"})
PRESELECTED = "paper-l2"


def preset_get(name: str) -> Preset:
    """The preset of this name or older name. Raises ValueError with the names there are."""
    found = PRESETS.get(ALIASES.get(name, name))
    if found is None:
        raise ValueError(f"There is no preset {name!r}. Choose one of: {', '.join(PRESETS)}.")
    return found
