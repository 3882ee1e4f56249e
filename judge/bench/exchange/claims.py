"""What a subject may answer: one frozen value for each question. Every answer is a claim by hostile code, and becomes
one of these or raises BadClaim before anything reads it. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from judge.bench.exchange.fields import NAME, TEXT, Fields, is_finite, name_of, need, text_of
from judge.bench.exchange.rows import (
    DTYPE,
    MOST_BYTES,
    NAME_CHARS,
    CountedRow,
    Described,
    Fault,
    KernelRow,
    LaunchedRow,
    LauncherRow,
    Owned,
    TracedRow,
    TunedRow,
)

SCALAR_LIMIT = 1 << 16  # characters of a string value
DEPTH_LIMIT = 16
SCALAR_BITS = 1024  # of a whole number beside the tensors
MOST_TENSORS, MOST_ROWS, MOST_LAUNCHES, MOST_KERNELS = 20_000, 5000, 200, 1000
MOST_GROUPS, MOST_NOTES, MOST_SWITCHES, MOST_UNSEEN = 200, 50, 64, 20
_DEVICE = re.compile(r"[a-z]{1,20}")


@dataclass(frozen=True)
class Beside:
    """What every reply may say beside its answer. `touched`: parts of ours that foreign code replaced."""

    switched: tuple[str, ...] = ()  # torch's switches that were turned
    touched: tuple[str, ...] = ()
    prepare_us: float | None = None
    fault: Fault | None = None
    peak_bytes: int = 0  # the most memory that its tensors ever took at a time

    @classmethod
    def read(cls, reply: Fields) -> Self:
        return cls(
            reply.rows("switched", lambda one: name_of(one, "a switch", NAME), MOST_SWITCHES),
            reply.rows("touched", lambda one: text_of(one, "a part", NAME), MOST_SWITCHES),
            reply.micros("prepare_us") if "prepare_us" in reply else None,
            Fault.read(reply.raw("error")) if "error" in reply else None,
            reply.whole("peak", 0),
        )


@dataclass(frozen=True)
class Claim:
    """The answer to the question `op`."""

    op: ClassVar[str]

    @classmethod
    def read(cls, reply: Fields) -> Self:
        """Raises BadClaim."""
        return cls()


@dataclass(frozen=True)
class Started(Claim):
    """The process is there and can use the device; no foreign code has run in it."""

    op = "start"


@dataclass(frozen=True)
class Loaded(Claim):
    op = "load"


@dataclass(frozen=True)
class ArenaOpened(Claim):
    op = "arena"


@dataclass(frozen=True)
class Constructed(Claim):
    """`state`: parameters, then buffers, each name once. `hook`: it takes the reference's state by a method."""

    op = "construct"
    state: tuple[Owned, ...]
    hook: bool

    @classmethod
    def read(cls, reply: Fields) -> Self:
        state = reply.rows("state", Owned.read, MOST_TENSORS, most_bytes=4 * MOST_BYTES)
        need(len({row.name for row in state}) == len(state), "two parameters of one name")
        return cls(state, reply.flag("hook"))


@dataclass(frozen=True)
class StateTaken(Claim):
    op = "parameters"


@dataclass(frozen=True)
class Chosen(Claim):
    op = "choose"


@dataclass(frozen=True)
class LaunchesFail(Claim):
    op = "fail_launches"


@dataclass(frozen=True)
class BurstReady(Claim):
    op = "burst_ready"


@dataclass(frozen=True)
class BurstCaptured(Claim):
    op = "burst_capture"


@dataclass(frozen=True)
class BurstDone(Claim):
    op = "burst"


@dataclass(frozen=True)
class Output(Claim):
    """What a call returned. `refused`: why it cannot be carried, "" where it can; then `template` is its nesting with
    the tensors' numbers, `metas` are the tensors in that order, and `stored` says that their bytes were handed over.
    """

    refused: str
    template: Any
    metas: tuple[Described, ...]
    stored: bool
    aliases: tuple[tuple[int, int], ...] = ()  # [output, input] that share memory
    kept: tuple[int, ...] = ()  # outputs in memory that the model keeps
    underived: bool = False  # refused since it has no gradient

    @staticmethod
    def fields(reply: Fields) -> dict[str, Any]:
        shared = {
            "aliases": reply.rows("alias", _pair, MOST_TENSORS),
            "kept": reply.rows("kept", _number, MOST_TENSORS),
            "underived": reply.flag("underived", False),
        }
        if "structure" in reply:
            refused = reply.text("structure", 5 * TEXT)
            return {"refused": refused or "nothing", "template": None, "metas": (), "stored": False, **shared}
        metas = reply.rows("metas", Described.read, MOST_TENSORS)
        template, count = reply.raw("template"), Numbered()
        check_template(template, count)
        need(count.tensors == len(metas), "a nesting and a list of tensors that disagree")
        return {"refused": "", "template": template, "metas": metas, "stored": reply.flag("stored"), **shared}


@dataclass(frozen=True)
class Forwarded(Output):
    """One call, and what a watch saw of it."""

    op = "forward"
    missing: frozenset[str] = frozenset()  # names that were asked for and are not there
    drew: bool = False
    grads: bool = False
    accumulated: bool = False  # something was left in the `grad` of an input or a parameter
    kernels: tuple[KernelRow, ...] = ()
    tuned: tuple[TunedRow, ...] = ()
    launchers: tuple[LauncherRow, ...] = ()
    notes: tuple[str, ...] = ()
    codes: tuple[tuple[str, str], ...] = ()  # of the kernels that were launched, with their names
    traffic: tuple[CountedRow, ...] | None = None  # None: nothing was said about it
    unseen: tuple[str, ...] = ()  # torch's operators that ran where they are not counted
    uncounted: tuple[str, ...] = ()  # values that came from where nothing is counted, in words
    launches: tuple[LaunchedRow, ...] = ()
    compiled_graphs: int = 0
    traced: tuple[TracedRow, ...] = ()
    untraced: str = ""  # why there is no trace

    @classmethod
    def read(cls, reply: Fields) -> Self:
        return cls(
            **cls.fields(reply),
            missing=frozenset(reply.rows("missing", lambda one: name_of(one, "a name", NAME_CHARS), MOST_TENSORS)),
            drew=reply.flag("drew", False),
            grads=reply.flag("grads", False),
            accumulated=reply.flag("accumulated", False),
            kernels=reply.rows("kernels", KernelRow.read, MOST_KERNELS, most_bytes=MOST_BYTES),
            tuned=reply.rows("tuned", TunedRow.read, MOST_GROUPS, most_bytes=MOST_BYTES),
            launchers=reply.rows("launchers", LauncherRow.read, MOST_KERNELS, most_bytes=MOST_BYTES),
            notes=reply.rows("notes", lambda one: text_of(one, "a note"), MOST_NOTES),
            codes=reply.rows("codes", _code, MOST_ROWS),
            traffic=reply.rows("traffic", CountedRow.read, MOST_ROWS) if "traffic" in reply else None,
            unseen=reply.rows("unseen", lambda one: name_of(one, "an operator", NAME_CHARS), MOST_UNSEEN),
            uncounted=reply.rows("uncounted", lambda one: text_of(one, "an origin"), MOST_UNSEEN),
            launches=reply.rows("launches", LaunchedRow.read, MOST_LAUNCHES),
            compiled_graphs=reply.whole("compiled_graphs", 0),
            traced=reply.rows("gpu", TracedRow.read, MOST_LAUNCHES),
            untraced=reply.text("gpu_failure"),
        )


@dataclass(frozen=True)
class Timed(Output):
    """One timed call: microseconds by the subject's own clock, and what launching took."""

    op = "timed"
    us: float = 0.0
    host_us: float = 0.0

    @classmethod
    def read(cls, reply: Fields) -> Self:
        return cls(**cls.fields(reply), us=reply.micros("us"), host_us=reply.micros("host_us", 0.0))


class Numbered:
    """Counts the tensors of a nesting: they are numbered in the order in which they are met."""

    tensors = 0

    def next(self, number: Any) -> None:
        need(type(number) is int and number == self.tensors, "a tensor out of order")
        self.tensors += 1


def check_template(data: Any, count: Numbered, depth: int = 0) -> None:
    """Raise BadClaim unless `data` is a nesting as `nested.encode` writes it."""
    need(depth <= DEPTH_LIMIT + 1 and type(data) is dict and len(data) == 1, "a bad nesting")
    ((tag, body),) = data.items()
    if tag in ("list", "tuple"):
        need(type(body) is list, "a bad list")
        for item in body:
            check_template(item, count, depth + 1)
    elif tag == "dict":
        need(type(body) is list and all(type(pair) is list and len(pair) == 2 for pair in body), "a bad dict")
        for key, item in body:
            need(is_scalar(key) and key is not None and type(key) is not float, "a bad key of a dict")
            check_template(item, count, depth + 1)
    elif tag == "t":
        count.next(body)
    else:
        need(tag in _LEAVES and _LEAVES[tag](body), "an unknown kind of value")


def is_scalar(value: Any) -> bool:
    """Whether it may stand beside the tensors of nested values as it is."""
    if type(value) is int:
        return value.bit_length() <= SCALAR_BITS
    if type(value) is str:
        return len(value) <= SCALAR_LIMIT
    return value is None or type(value) is bool or is_finite(value)


_LEAVES: dict[str, Callable[[Any], bool]] = {
    "v": is_scalar,
    "f": lambda body: body in ("nan", "inf", "-inf"),
    "c": lambda body: type(body) is list and len(body) == 2 and all(type(part) is float for part in body),
    "dtype": lambda body: type(body) is str and DTYPE.fullmatch(body) is not None,
    "device": lambda body: type(body) is str and _DEVICE.fullmatch(body) is not None,
}


def _number(value: Any) -> int:
    need(type(value) is int and 0 <= value < MOST_TENSORS, "a bad number of a tensor")
    return int(value)


def _pair(value: Any) -> tuple[int, int]:
    need(type(value) is list and len(value) == 2, "a bad pair of tensors")
    return _number(value[0]), _number(value[1])


def _code(value: Any) -> tuple[str, str]:
    need(type(value) is list and len(value) == 2, "a bad code of a kernel")
    return name_of(value[0], "the code of a kernel"), name_of(value[1], "the name of a kernel")
