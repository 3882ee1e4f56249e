"""What the bench is asked: a job with its problem, policy and limits. Standard library only."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from judge.values.numerics import Precision
from judge.values.rebuilding import json_object, rebuilt
from judge.values.texts import text_hash

GPU_CASE, INTERPRETER_CASE = "gpu", "interpreter"  # cases that devices of the kind are judged and timed on


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


class Gradients(StrEnum):
    """Of what a problem asks gradients: it is judged and timed as forward, then backward."""

    NONE = "none"
    INPUTS = "inputs"
    PARAMETERS = "parameters"
    ALL = "all"

    @property
    def of_inputs(self) -> bool:
        return self in (Gradients.INPUTS, Gradients.ALL)

    @property
    def of_parameters(self) -> bool:
        return self in (Gradients.PARAMETERS, Gradients.ALL)


GRADIENTS = {  # names in titles, files and commands
    Gradients.NONE: "none",
    Gradients.INPUTS: "gradients of inputs",
    Gradients.PARAMETERS: "gradients of parameters",
    Gradients.ALL: "all gradients",
}


@dataclass(frozen=True)
class Policy:
    """Rules of one problem. `dtype` ("float16", ...) casts floating inputs and parameters; None: as given."""

    precision: Precision = Precision.STRICT
    mode: Mode = Mode.CONSTRUCTED
    library: Library = Library.LABEL
    dtype: str | None = None
    inputs: str = "device"  # "device": random factories are redirected to it; "cpu": made on the CPU and copied
    equal_seeding: bool = False  # for imported kernels that rely on the seed instead of taking the parameters
    gradients: Gradients = Gradients.NONE

    def __post_init__(self) -> None:
        if self.dtype not in (None, "float64", "float32", "bfloat16", "float16"):
            raise ValueError(f"policy: dtype {self.dtype!r} is none of float64, float32, bfloat16, float16")
        if self.inputs not in ("device", "cpu"):
            raise ValueError(f"policy: inputs {self.inputs!r} is neither device nor cpu")
        if self.equal_seeding and self.gradients.of_parameters:
            raise ValueError("policy: gradients of parameters need the reference's parameters, not an equal seed")

    def to_json(self) -> dict[str, Any]:
        """Only what differs from the default, so that a later field changes no hash."""
        plain = dataclasses.asdict(self)
        return {key: value for key, value in plain.items() if value != getattr(DEFAULT_POLICY, key)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_json`. Raises ValueError or TypeError that names the field."""
        unknown = set(json_object(data)) - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise ValueError(f"policy: unknown field {', '.join(sorted(unknown))}")
        return rebuilt(cls, data)


DEFAULT_POLICY = Policy()


@dataclass(frozen=True)
class Limits:
    """Bounds of one child process."""

    wall_s: float = 60.0  # whole evaluation
    stage_s: float = 30.0  # any single stage (import, one forward, ...)
    memory_mb: int = 4096  # address space beyond the preloaded parent; CPU devices only
    output_bytes: int = 64 * 1024  # kept candidate stdout+stderr
    source_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        if min(self.wall_s, self.stage_s) <= 0 or self.memory_mb < 256:
            raise ValueError("limits must be positive, memory at least 256 MiB")


KINDS = {"": "size", "resized": "size", "strided": "stride", "broadcast": "broadcast", "special": "special values"}


@dataclass(frozen=True)
class SealedCase:
    """Module constants that no proposer sees. Failing a declared one is `wrong`; a derived one only labels.

    `change`, if any, is what happens to the inputs that the constants make: see `change_of` in
    judge/bench/judging/variants.py.
    """

    name: str
    constants: dict[str, Any]
    derived: bool = False  # made by the preflight, not given by a person
    change: str = ""

    @property
    def kind(self) -> str:
        """All that may be told of it: what it changes."""
        return KINDS.get(self.change.partition(" ")[0], "other")


@dataclass(frozen=True)
class ProblemSpec:
    """A problem as the bench sees it. `case` is the name from get_cases() to time; None means the plain constants."""

    source: str
    case: str | None = None
    policy: Policy = DEFAULT_POLICY
    sealed: tuple[SealedCase, ...] = field(default=(), repr=False)  # never in a log

    @property
    def hash(self) -> str:
        """sha256 of source and policy; of the source alone where the policy is the default."""
        demands = self.policy.to_json()
        if not demands:
            return text_hash(self.source)
        return hashlib.sha256(f"{text_hash(self.source)}{json.dumps(demands, sort_keys=True)}".encode()).hexdigest()


@dataclass(frozen=True)
class Job:
    """One evaluation to do. Content and order come from the referee's own entropy.

    `beat` is the speedup over eager that would make the candidate the best: above it, it is audited and measured again
    in fresh processes. None audits every pass; infinity audits none. `incumbent` is the source of the best so far,
    measured side by side with the candidate. `baselines` names those that are timed only when asked for.
    """

    id: str
    problem: ProblemSpec
    candidate: str
    limits: Limits = Limits()
    timing: bool = True
    beat: float | None = None
    incumbent: str | None = field(default=None, repr=False)
    baselines: frozenset[str] = frozenset()
