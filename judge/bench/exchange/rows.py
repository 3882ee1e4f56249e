"""Rows of a subject's answers as frozen values: tensors, parameters, kernels, launches, faults.

Standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

from judge.bench.exchange.fields import TEXT, BadClaim, Fields, name_of, need, sizes_of

MOST_CONFIGS, MOST_TYPES, TYPES_DEPTH = 64, 400, 4
MOST_INSIDE = 20  # calls inside one kernel that are told
NAME_CHARS, MESSAGE_CHARS = 400, 4000  # of a parameter's name, of what a fault says
MOST_BYTES = 1 << 20  # of one list as JSON: several of them go into one message of the judge's
FAULTS = frozenset({"exception", "bounds", "unsupported", "resources", "compile", "oom", "device", "load"})
DOTS = frozenset({"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"})
REASON = re.compile(r"(source|load|compile)\.(?!died$|timeout$|oom$)[a-z_]{1,40}|compile\.timeout")
DTYPE = re.compile(r"[a-z0-9_]{1,40}")
_TYPE = re.compile(r"constexpr|nvTmaDesc|\*?[a-z]{1,4}[0-9]{1,2}[a-z0-9]{0,8}|\*k?(?:i|u|fp|bf)[0-9]{1,2}")
_DESCRIPTOR = re.compile(r"tensordesc<[a-z0-9]{2,12}\[[0-9, ]{1,60}\][A-Za-z0-9=,. ]{0,80}>")


@dataclass(frozen=True)
class Described:
    """A tensor in words: dtype ("float32") and shape."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def read(cls, value: Any) -> Self:
        row = Fields(value, "a tensor")
        return cls(_matching(row.raw("dtype"), DTYPE, "a dtype"), sizes_of(row.raw("shape"), "the shape of a tensor"))


@dataclass(frozen=True)
class Owned:
    """A parameter or buffer of the subject's model. `kind` is "parameter" or "buffer"."""

    name: str
    kind: str
    shape: tuple[int, ...]

    @classmethod
    def read(cls, value: Any) -> Self:
        row = Fields(value, "a parameter")
        kind = row.word("kind", ("parameter", "buffer"))
        return cls(row.name("name", NAME_CHARS), kind, sizes_of(row.raw("shape"), "the shape of a parameter"))


@dataclass(frozen=True)
class KernelRow:
    """One launch as a recorder compiled it. `config` and `configs`: what an autotuner took, of how many."""

    name: str
    grid: tuple[int, ...]
    num_warps: int
    num_stages: int
    regs: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    error: str | None = None
    config: str | None = None
    configs: int | None = None

    @classmethod
    def read(cls, value: Any) -> Self:
        row = Fields(value, "a kernel")
        grid = sizes_of(row.raw("grid"), "the grid of a kernel")
        need(1 <= len(grid) <= 3, "a grid of more than three sizes")
        known: dict[str, Any] = {
            name: row.perhaps_whole(name) for name in ("regs", "spills", "shared_bytes", "configs")
        }
        words: dict[str, Any] = {
            name: row.text(name) for name in ("error", "config") if name in row and row.raw(name) is not None
        }
        return cls(row.name("name"), grid, row.whole("num_warps"), row.whole("num_stages"), **known, **words)

    def to_json(self) -> dict[str, Any]:
        """As a recorder writes it: what an autotuner took only where there was one."""
        row = {**vars(self), "grid": list(self.grid)}
        return {name: value for name, value in row.items() if value is not None or name not in ("config", "configs")}


@dataclass(frozen=True)
class TunedRow:
    """What became of one autotuner's list, see tuning_record.group_row."""

    kernel: str
    key: str
    total: int
    compiled: tuple[str, ...]
    over_limit: int
    late: int
    unfit: int
    first: str
    chosen: str

    @classmethod
    def read(cls, value: Any) -> Self:
        row = Fields(value, "an autotuner's list")
        counts: dict[str, Any] = {name: row.whole(name) for name in ("total", "over_limit", "late", "unfit")}
        words: dict[str, Any] = {
            name: name_of(row.raw(name), f"{name} of a list", TEXT) for name in ("first", "chosen")
        }
        compiled = row.rows("compiled", lambda one: name_of(one, "a configuration", TEXT), MOST_CONFIGS)
        key = name_of(row.raw("key"), "the key of a list", 5 * TEXT)
        return cls(kernel=row.name("kernel"), key=key, compiled=compiled, **counts, **words)


@dataclass(frozen=True)
class LauncherRow:
    """The types of one kernel's arguments, as Triton writes them; nested tuples are theirs."""

    signature: tuple[Any, ...]
    descriptors: bool = False

    @classmethod
    def read(cls, value: Any) -> Self:
        row = Fields(value, "a launcher")
        return cls(types_of(row.raw("signature")), row.flag("descriptors", False))


@dataclass(frozen=True)
class CountedRow:
    """One launch as an interpreter counted it; see LaunchTraffic."""

    name: str
    origin: str
    programs: int | None
    logical_bytes: int
    sector_bytes: int
    unique_bytes: int
    elementwise_flops: int
    dot_flops: dict[str, int]
    accesses: int

    @classmethod
    def read(cls, value: Any) -> Self:
        row = Fields(value, "a counted launch")
        sums = ("logical_bytes", "sector_bytes", "unique_bytes", "elementwise_flops", "accesses")
        return cls(
            name=row.name("name"),
            origin=row.word("origin", ("triton", "torch")),
            programs=row.perhaps_whole("programs"),
            dot_flops=row.counts("dot_flops", DOTS),
            **{name: row.whole(name) for name in sums},
        )


@dataclass(frozen=True)
class LaunchedRow:
    """One kernel in a child of the audit: whose it is, how often it was launched to the end, how often that raised, and
    what it called that is no kernel, while it was interpreted."""

    name: str
    origin: str
    completed: int
    raised: int
    kind: str
    inside: tuple[str, ...] = ()

    @classmethod
    def read(cls, value: Any) -> Self:
        row = Fields(value, "a launch")
        origin, kind = row.word("origin", ("own", "compiler", "library")), row.word("kind", FAULTS | {""})
        inside = row.rows("inside", lambda one: name_of(one, "what a kernel calls"), MOST_INSIDE)
        return cls(row.name("name"), origin, row.whole("completed"), row.whole("raised"), kind, inside)


@dataclass(frozen=True)
class TracedRow:
    """One kernel that the GPU ran during a call, and for how long in all."""

    name: str
    us: float

    @classmethod
    def read(cls, value: Any) -> Self:
        row = Fields(value, "a traced kernel")
        return cls(row.name("name"), row.micros("us"))


@dataclass(frozen=True)
class Fault:
    """What a subject says went wrong. `kind` is one of FAULTS, `reason` a stage's code or ""."""

    kind: str
    message: str
    reason: str

    @classmethod
    def read(cls, value: Any) -> Self:
        row = Fields(value, "a fault")
        reason = row.raw("reason") if "reason" in row else ""
        fits = reason == "" or (type(reason) is str and REASON.fullmatch(reason) is not None)
        need(fits, "an unknown reason of a fault")
        return cls(row.word("kind", FAULTS), row.text("message", MESSAGE_CHARS), str(reason))


def sendable(rows: Iterable[dict[str, Any]], read: Callable[[Any], Any], most: int) -> list[dict[str, Any]]:
    """For the honest side: of its rows, in order, those that `read` takes, as many as one list may hold."""
    found: list[dict[str, Any]] = []
    size = 2
    for row in rows:
        try:
            read(row)
        except BadClaim:
            continue
        size += len(json.dumps(row)) + 2
        if len(found) == most or size > MOST_BYTES:
            break
        found.append(row)
    return found


def types_of(signature: Any, depth: int = 0) -> tuple[Any, ...]:
    """A kernel's argument types, nested tuples included. Raises BadClaim for anything else."""
    need(type(signature) in (list, tuple) and len(signature) <= MOST_TYPES and depth <= TYPES_DEPTH, "no signature")
    found: list[Any] = []
    for item in signature:
        if type(item) in (list, tuple):
            found.append(types_of(item, depth + 1))
        else:
            known = type(item) is str and (_TYPE.fullmatch(item) or _DESCRIPTOR.fullmatch(item))
            need(bool(known), "a signature with something that is no type")
            found.append(item)
    return tuple(found)


def _matching(value: Any, pattern: re.Pattern[str], what: str) -> str:
    need(type(value) is str and pattern.fullmatch(value) is not None, f"{what} that is none")
    return str(value)
