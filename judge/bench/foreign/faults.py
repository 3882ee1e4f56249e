"""What a candidate raised, as a value: which kind of fault, and a message with its own frames only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judge.bench.exchange.rows import REASON
from judge.bench.foreign.sources import describe

_BY_NAME = {
    "OutOfBounds": "bounds",
    "Unsupported": "unsupported",
    "HostAccess": "unsupported",
    "OutOfResources": "resources",
    "CompileFailed": "compile",
    "CompilationError": "compile",
    "CompileTimeAssertionFailure": "compile",
    "UnsupportedLanguageConstruct": "compile",
    "PTXASError": "compile",
    "MemoryError": "oom",
    "OutOfMemoryError": "oom",
    "DeviceLost": "device",
}
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "cannot allocate memory", "unable to mmap")


def cause_of(error: BaseException) -> BaseException:
    """The first of the error's chain whose kind is known; the error itself when there is none."""
    return next((cause for cause in _chain(error) if _kind(cause) != "exception"), error)


def kind_of(error: BaseException) -> str:
    """bounds, unsupported, resources, compile, oom, device (see DeviceLost), else exception."""
    return _kind(cause_of(error))


def describe_fault(error: BaseException, path: Path) -> dict[str, Any]:
    """`kind` (see `kind_of`), reason code if it has one, message: as a Fault of the exchange is."""
    cause = cause_of(error)
    kind = _kind(cause)
    reason = getattr(cause, "reason", "") if kind != "exception" else ""
    known = isinstance(reason, str) and REASON.fullmatch(reason) is not None
    return {"kind": kind, "reason": reason if known else "", "message": _message(cause, error, path)}


def _message(cause: BaseException, error: BaseException, path: Path) -> str:
    if isinstance(message := getattr(cause, "message", None), str) and _kind(cause) == "compile":
        return message  # ours, with the place
    return describe(cause, path) if cause is error else _both(cause, error, path)


def _both(cause: BaseException, error: BaseException, path: Path) -> str:
    """The cause's words, then the frames by which it came out of the candidate."""
    frames = describe(error, path).partition("\n  File ")
    return describe(cause, path) + (f"\n  File {frames[2]}" if frames[1] else "")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)


def _kind(error: BaseException) -> str:
    for base in type(error).__mro__:
        if base.__name__ in _BY_NAME:
            return _BY_NAME[base.__name__]
    if isinstance(error, RuntimeError | OSError) and any(words in str(error).lower() for words in _OUT_OF_MEMORY):
        return "oom"
    return "exception"
