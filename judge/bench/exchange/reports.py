"""What a child that decides may tell the runner: one frozen value for each message. Standard library only.

The problem's own code runs in that child. Each message carries the nonce of its assignment; one without it, or of
another form, was written by that code and raises BadClaim.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from judge.bench.exchange.fields import NAME, Fields, name_of, need
from judge.bench.exchange.wire import Message
from judge.values import StageRecord

MOST_CHILDREN, MOST_THREADS, DETAIL_CHARS = 120, 200, 2000  # eight weighted cases take up to nine children each
MODE_CHARS = 240  # with the name of a case
CASES_TIMED, CASES_WALLS = "cases.timing", 2  # stage, and how often an evaluation's time limit one pass of it may take
PASSES = 5
LONGEST_MS = 1e8  # more than a day
_STAGE = re.compile(r"[A-Za-z][A-Za-z0-9_. ]{0,39}")
_LAYER = re.compile(r"[a-z_]{1,40}")


@dataclass(frozen=True)
class Layers:
    """Sandbox layers and their state, said before anything foreign is read, and so without a nonce."""

    states: dict[str, str]


@dataclass(frozen=True)
class Threads:
    """Threads of a subject before it loads what it was given, as (id, when it started): not of an assignment either."""

    known: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Doing:
    """A stage begins."""

    stage: str


@dataclass(frozen=True)
class Inside:
    """The problem's own code is entered at this place; "" when it is back."""

    place: str


@dataclass(frozen=True)
class GaveUp:
    """A fault that is nobody's ends the child."""

    why: str


@dataclass(frozen=True)
class Finished:
    """A stage is over."""

    record: StageRecord


@dataclass(frozen=True)
class Needs:
    """Further children are asked for: name -> mode."""

    wanted: dict[str, str]


@dataclass(frozen=True)
class Looks:
    """What the runner sees of a child is asked for."""

    name: str


@dataclass(frozen=True)
class Times:
    """These children are timed from now on, and nobody else."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Sealed:
    """The verdict with its signature; who may take part in another evaluation; whether GPU memory is scarce."""

    body: Any
    mac: str
    stays: tuple[str, ...]
    scarce: bool


Report = Layers | Threads | Doing | Inside | GaveUp | Finished | Needs | Looks | Times | Sealed


def heard(message: Message, nonce: str) -> Report:
    """The message as a value. Raises BadClaim."""
    fields = Fields(message, "a message")
    if "sandbox" in fields:
        return _layers(fields)
    if "threads" in fields:
        return Threads(frozenset(fields.rows("threads", _thread, MOST_THREADS)))
    need(fields.raw("nonce") == nonce, "a message that does not belong to the assignment")
    found = [read for key, read in _READERS.items() if key in fields]
    need(len(found) == 1, "a message of no known kind")
    return found[0](fields)


def _layers(fields: Fields) -> Layers:
    states = fields.raw("sandbox")
    fits = type(states) is dict and all(_LAYER.fullmatch(name) for name in states)
    need(fits, "layers of a sandbox with an unknown name")
    return Layers({name: name_of(state, "a layer of the sandbox", NAME) for name, state in states.items()})


def _thread(value: Any) -> tuple[int, int]:
    need(type(value) is list and len(value) == 3 and all(type(one) is int for one in value[:2]), "a bad thread")
    return value[0], value[1]


def _stage(fields: Fields, key: str) -> str:
    stage = fields.name(key, 40)
    need(_STAGE.fullmatch(stage) is not None, "the name of a stage that is none")
    return stage


def _finished(fields: Fields) -> Finished:
    row = Fields(fields.raw("stage"), "a stage")
    return Finished(
        StageRecord(
            _stage(row, "name"),
            row.word("state", ("ok", "failed", "warned", "skipped")),
            row.number("wall_ms", LONGEST_MS),
            row.text("detail", DETAIL_CHARS),
            row.text("fix", DETAIL_CHARS),
        )
    )


def _needs(fields: Fields) -> Needs:
    wanted = fields.raw("need")
    need(type(wanted) is dict and 0 < len(wanted) <= MOST_CHILDREN, "no list of children")
    return Needs({name_of(name, "a child", 40): name_of(mode, "a mode", MODE_CHARS) for name, mode in wanted.items()})


def _sealed(fields: Fields) -> Sealed:
    stays = fields.rows("stays", lambda one: name_of(one, "a child that stays", 40), MOST_CHILDREN)
    return Sealed(fields.raw("verdict"), fields.name("mac"), stays, fields.flag("scarce", False))


_READERS: dict[str, Callable[[Fields], Report]] = {
    "verdict": _sealed,
    "doing": lambda fields: Doing(_stage(fields, "doing")),
    "inside": lambda fields: Inside(name_of(fields.raw("inside"), "a place", 40)),
    "gave_up": lambda fields: GaveUp(fields.text("gave_up", 600)),
    "stage": _finished,
    "need": _needs,
    "look": lambda fields: Looks(fields.name("look", 40)),
    "time": lambda fields: Times(fields.rows("time", lambda one: name_of(one, "a child", 40), MOST_CHILDREN)),
}
