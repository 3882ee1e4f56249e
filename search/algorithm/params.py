"""The parameters of a search: a frozen value stored on the run, checked once and never changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

POLICY_NAMES = ("uct", "greedy", "independent", "chain", "map_elites")
REWARD_NAMES = ("paper", "log")
_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType({"policy": POLICY_NAMES, "reward": REWARD_NAMES})

FIRST_VERSION, VERSION = 1, 2  # of decisions: see SearchParams.version
FORMER = frozenset({"rule_threshold"})  # belongs to memory: see memory.prompting.choices.MemoryChoice.threshold

# name -> (least, greatest) allowed value
_RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "w": (0.0, 100.0),
        "rho": (0.0, 100.0),
        "alpha": (0.0, 1.0),
        "p_large": (0.0, 1.0),
        "small_step_limit": (0, 1000),
        "pool_size": (0, 50),
        "window": (1, 50),
        "pool_extra_max": (0, 50),
        "pool_extra_t": (0.001, 1000.0),
        "pool_extra_p": (0.0, 1.0),
        "version": (FIRST_VERSION, VERSION),
    }
)


@dataclass(frozen=True)
class SearchParams:
    """Defaults are those of the publication (AdaExplore, arXiv 2604.16625).

    `policy` selects the node to expand. `reward` is the publication's, capped at 10x, or `log` against the run's best.
    `w` weighs exploration, `rho` the expand arm against the child arms, `alpha` the best against the mean reward that
    is backed up: 0 is the mean, 1 the max, between them a blend.
    A step is large with probability `p_large`, always once a node has `small_step_limit` small steps below it.
    A large step shows at most `pool_size` kernels, a small step the last `window`. Up to `pool_extra_max` kernels come
    from elsewhere in the tree, by softmax at temperature `pool_extra_t`, their number geometric with `pool_extra_p`.
    `version` says how decisions are made, so that a run is replayed as it was decided: from 2 on a kernel in doubt
    counts as a wrong one (ADR 46), and `uct` divides inside the root. A run has it from its start and keeps it.
    Raises ValueError with a sentence when a value is of the wrong type or out of range.
    """

    policy: str = "uct"
    reward: str = "paper"
    w: float = 0.3
    rho: float = 1.0
    alpha: float = 0.0
    p_large: float = 0.2
    small_step_limit: int = 2
    pool_size: int = 5
    window: int = 5
    pool_extra_max: int = 0
    pool_extra_t: float = 1.0
    pool_extra_p: float = 0.6
    version: int = VERSION

    def __post_init__(self) -> None:
        for name, known in _NAMES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}.")
        for name, (least, greatest) in _RANGES.items():
            value, whole = getattr(self, name), _TYPES[name] is int
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                raise ValueError(f"{name} must be a {'whole ' if whole else ''}number, not {value!r}.")
            if not least <= value <= greatest:  # no float of it is made: a whole number may be larger than any
                raise ValueError(f"{name} must be from {least:g} to {greatest:g}, not {str(value)[:20]}.")
            if not whole:
                object.__setattr__(self, name, float(value))

    @property
    def backup(self) -> str:
        """What `alpha` comes to: mean, max or blend."""
        return {0.0: "mean", 1.0: "max"}.get(self.alpha, "blend")

    @property
    def log(self) -> bool:
        """Whether rewards are on the logarithmic scale."""
        return self.reward == "log"

    @property
    def folds_marks(self) -> bool:
        """Whether a kernel in doubt counts as a wrong one."""
        return self.version >= 2

    @property
    def divides_inside(self) -> bool:
        """Whether the expand arm of `uct` is rounded as in the published code."""
        return self.version >= 2

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; `from_json` is its inverse."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Parameters from a mapping; what is missing takes its default. Raises ValueError on unknown names.

        Names of former versions are passed over: they never changed a decision.
        """
        data = {name: value for name, value in data.items() if name not in FORMER}
        unknown = sorted(set(data) - set(_TYPES))
        if unknown:
            raise ValueError(f"Unknown search parameter {', '.join(unknown)}. Known: {', '.join(_TYPES)}.")
        return cls(**data)

    @classmethod
    def of_run(cls, stored: Mapping[str, Any]) -> Self:
        """The parameters that a run has stored; runs from before there were versions have the first one."""
        return cls.from_json({"version": FIRST_VERSION, **stored})

    @classmethod
    def from_texts(cls, pairs: Iterable[str], base: Mapping[str, Any] | None = None) -> Self:
        """Parameters from `name=value` texts, as typed on a command line or in a form."""
        data: dict[str, Any] = dict(base or {})
        for pair in pairs:
            name, equals, text = pair.partition("=")
            kind = _TYPES.get(name)
            if not equals or kind is None or name not in SETTABLE:
                raise ValueError(f"{pair!r} is not name=value with a name out of {', '.join(SETTABLE)}.")
            try:
                data[name] = kind(text)
            except ValueError:
                raise ValueError(f"{name} must be a {'whole ' if kind is int else ''}number, not {text!r}.") from None
        return cls.from_json(data)


_TYPES: Mapping[str, type] = MappingProxyType(
    {field.name: type(field.default) for field in dataclasses.fields(SearchParams)}
)
SETTABLE = tuple(name for name in _TYPES if name != "version")


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
