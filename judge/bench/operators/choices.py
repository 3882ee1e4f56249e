"""What to give an argument, by its name alone. A size of the input or of the output is said as such, not as a number.

{"axis": k} is the input's size along k, {"new": True} a size that whoever composes may choose.
"""

from __future__ import annotations

from itertools import islice, product
from typing import Any

Choice = Any  # a JSON value, {"axis": k} or {"new": True}

LAST: Choice = {"axis": -1}
CHANNELS: Choice = {"axis": 1}
NEW: Choice = {"new": True}

# Given where an argument of this name must be.
NEEDED: dict[str, tuple[Choice, ...]] = {
    "in_features": (LAST,),
    "out_features": (NEW,),
    "in_channels": (CHANNELS,),
    "out_channels": (NEW,),
    "num_features": (CHANNELS,),
    "num_channels": (CHANNELS,),
    "num_groups": (4,),
    "normalized_shape": (LAST,),
    "kernel_size": (3, 2),
    "padding": (1,),
    "output_size": (4,),
    "upscale_factor": (2,),
    "downscale_factor": (2,),
    "groups": (4,),
    "size": (3,),
    "norm_type": (2.0,),
    "threshold": (0.1,),
    "value": (0.5,),
    "start_dim": (1,),
    "dim": (-1, 1),
}
# Given where there is one, although it could be left out.
BETTER: dict[str, tuple[Choice, ...]] = {"dim": (-1, 1), "scale_factor": (2,)}
PADDED = ("kernel_size", "padding")  # a window may keep the size
VARIANTS = 6


def variants(parameters: dict[str, bool]) -> list[dict[str, Choice]]:
    """Sets of arguments worth trying. Empty when something is needed that no name here stands for."""
    wanted = {name: NEEDED.get(name, ()) for name, needed in parameters.items() if needed}
    if not all(wanted.values()):
        return []
    wanted |= {name: values for name, values in BETTER.items() if name in parameters}
    names = list(wanted)
    found = [dict(zip(names, values, strict=True)) for values in islice(product(*wanted.values()), VARIANTS)]
    if all(name in parameters for name in PADDED) and "padding" not in wanted:
        found = [one | {"padding": 1} for one in found if one["kernel_size"] == 3] + found
    return found


def filled(arguments: dict[str, Choice], shape: tuple[int, ...], new: int) -> dict[str, Any]:
    """The arguments for an input of this shape. Raises IndexError for an axis it does not have."""
    return {name: _value(choice, shape, new) for name, choice in arguments.items()}


def _value(choice: Choice, shape: tuple[int, ...], new: int) -> Any:
    if not isinstance(choice, dict):
        return choice
    return new if "new" in choice else shape[choice["axis"]]
