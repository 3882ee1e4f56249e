"""What a problem demands of a candidate beyond right numbers. Part of the problem's hash. Standard library only."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


class Precision(StrEnum):
    """The coarsest arithmetic a candidate may use on floating inputs."""

    STRICT = "strict"  # error within a small factor of the honest reference in the same dtype, TF32 off
    TF32 = "tf32"  # TF32 matrix products are allowed, for baselines too
    HALF = "half"  # bfloat16 or float16 arithmetic is allowed, TF32 too


class Mode(StrEnum):
    """Mode of the reference and the candidate."""

    CONSTRUCTED = "constructed"  # as the constructor leaves it
    TRAIN = "train"
    EVAL = "eval"


class Library(StrEnum):
    """What a candidate may leave to vendor libraries or torch operators."""

    ALLOW = "allow"
    LABEL = "label"  # allowed and said
    REFUSE = "refuse"


@dataclass(frozen=True)
class Policy:
    """Rules of one problem. `dtype` ("float16", ...) casts floating inputs and parameters; None: as given."""

    precision: Precision = Precision.STRICT
    mode: Mode = Mode.CONSTRUCTED
    library: Library = Library.LABEL
    dtype: str | None = None
    inputs: str = "device"  # "device": random factories are redirected to it; "cpu": made on the CPU and copied
    equal_seeding: bool = False  # for imported kernels that rely on the seed instead of taking the parameters

    def __post_init__(self) -> None:
        if self.dtype not in (None, "float64", "float32", "bfloat16", "float16"):
            raise ValueError(f"policy: dtype {self.dtype!r} is none of float64, float32, bfloat16, float16")
        if self.inputs not in ("device", "cpu"):
            raise ValueError(f"policy: inputs {self.inputs!r} is neither device nor cpu")

    def to_json(self) -> dict[str, Any]:
        """Only what differs from the default, so that a later field changes no hash."""
        plain = dataclasses.asdict(self)
        return {key: value for key, value in plain.items() if value != getattr(DEFAULT_POLICY, key)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_json`. Raises ValueError or TypeError that names the field."""
        unknown = set(data) - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise ValueError(f"policy: unknown field {', '.join(sorted(unknown))}")
        kinds = {"precision": Precision, "mode": Mode, "library": Library}
        fields: dict[str, Any] = {key: kinds[key](value) if key in kinds else value for key, value in data.items()}
        return cls(**fields)


DEFAULT_POLICY = Policy()
