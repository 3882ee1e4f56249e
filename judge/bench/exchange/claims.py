"""Checks the form of what a subject says before anything reads it: every answer is a claim by hostile code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from judge.bench.exchange.nested import DEPTH_LIMIT
from judge.bench.exchange.wire import Message

MAX_DIMS, MAX_ROWS, MAX_NAME = 32, 20_000, 400
MAX_CONFIGS, MAX_TEXT = 64, 2000
TUNED = {
    "kernel": str, "key": str, "total": int, "compiled": list, "over_limit": int, "late": int, "unfit": int,
    "first": str, "chosen": str,
}  # fmt: skip
_SCALARS = (str, int, float, bool, type(None))


class BadClaim(Exception):
    """The answer does not have the form that was agreed."""


def check_claim(op: str, reply: Message) -> None:
    """Raise BadClaim unless `reply` is a well-formed answer to `op`."""
    _CHECKS[op](reply)


def _need(fits: bool, what: str) -> None:
    if not fits:
        raise BadClaim(what)


def _lists(reply: Message, *names: str) -> None:
    for name in names:
        _need(isinstance(reply.get(name, []), list) and len(reply.get(name, [])) <= MAX_ROWS, f"bad {name}")


def _is_int(value: Any) -> bool:
    return type(value) is int and abs(value) < 1 << 62


def _meta(row: Any) -> None:
    _need(isinstance(row, dict) and isinstance(row.get("dtype"), str), "a tensor without a dtype")
    for name in ("shape", "stride"):
        sizes = row.get(name)
        _need(isinstance(sizes, list) and len(sizes) <= MAX_DIMS and all(map(_is_int, sizes)), f"a bad {name}")


def _template(data: Any, depth: int = 0) -> None:
    _need(depth <= DEPTH_LIMIT + 1 and isinstance(data, dict) and len(data) == 1, "a bad nesting")
    ((tag, body),) = data.items()
    if tag in ("list", "tuple"):
        _need(isinstance(body, list), "a bad list")
        for item in body:
            _template(item, depth + 1)
    elif tag == "dict":
        _need(isinstance(body, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in body), "a bad dict")
        for _, item in body:
            _template(item, depth + 1)
    else:
        _need(tag in ("t", "v", "f", "c", "dtype", "device"), "an unknown kind of value")


def _output(reply: Message) -> None:
    if "structure" in reply:
        _need(isinstance(reply["structure"], str), "a bad structure")
        return
    rows = reply.get("metas")
    _need(isinstance(rows, list) and len(rows) <= MAX_ROWS, "no list of tensors")
    for row in rows or []:
        _meta(row)
    _template(reply.get("template"))
    _need(type(reply.get("stored")) is bool, "no word on what was stored")


def _forward(reply: Message) -> None:
    _output(reply)
    _left_behind(reply)
    _lists(reply, "kernels", "traffic", "notes", "launches", "gpu", "codes")
    for row in reply.get("codes", []):
        _need(isinstance(row, list) and len(row) == 2 and all(map(_is_text, row)), "a bad code of a kernel")
    for row in reply.get("kernels", []):
        _need(isinstance(row, dict) and all(_plain(value) for value in row.values()), "a bad kernel row")
    _compiled(reply)


def _shared(reply: Message) -> None:
    """Which outputs lie in whose memory."""
    _lists(reply, "alias", "kept")
    for pair in reply.get("alias", []):
        _need(isinstance(pair, list) and len(pair) == 2 and all(map(_is_int, pair)), "a bad pair of tensors")
    _need(all(map(_is_int, reply.get("kept", []))), "a bad number of an output")


def _left_behind(reply: Message) -> None:
    """What a call did to memory, state and generators."""
    _shared(reply)
    _lists(reply, "missing")
    _need(all(map(_is_text, reply.get("missing", []))), "a bad name")
    _need(all(type(reply.get(name, False)) is bool for name in ("drew", "grads")), "neither yes nor no")


def _compiled(reply: Message) -> None:
    """What a recorder adds: the lists of autotuners, the signatures of launchers."""
    _lists(reply, "tuned", "launchers")
    for row in reply.get("tuned", []):
        _need(isinstance(row, dict) and set(row) == set(TUNED), "a bad autotuner's list")
        _need(all(type(row[key]) is kind for key, kind in TUNED.items()), "a bad autotuner's list")
        _need(len(row["compiled"]) <= MAX_CONFIGS and all(map(_is_text, row["compiled"])), "bad configurations")
    for row in reply.get("launchers", []):
        _need(isinstance(row, dict) and isinstance(row.get("signature"), list), "a bad signature")


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= MAX_TEXT


def _plain(value: Any) -> bool:
    return isinstance(value, _SCALARS) or (
        isinstance(value, list) and len(value) <= MAX_DIMS and all(isinstance(item, _SCALARS) for item in value)
    )


def _timed(reply: Message) -> None:
    _output(reply)
    _shared(reply)
    _need(type(reply.get("us")) in (int, float), "no time")
    _need(type(reply.get("host_us", 0.0)) in (int, float), "a bad launch time")


def _constructed(reply: Message) -> None:
    rows = reply.get("state")
    _need(isinstance(rows, list) and len(rows) <= MAX_ROWS, "no list of parameters")
    for row in rows or []:
        _meta(row)
        _need(isinstance(row.get("name"), str) and len(row["name"]) <= MAX_NAME, "a bad parameter name")
        _need(row.get("kind") in ("parameter", "buffer"), "neither parameter nor buffer")
    _need(type(reply.get("hook")) is bool, "no word on the hook")


def _has(name: str) -> Callable[[Message], None]:
    return lambda reply: _need(name in reply, f"no {name}")


_CHECKS: dict[str, Callable[[Message], None]] = {
    "load": _has("loaded"),
    "arena": _has("arena"),
    "construct": _constructed,
    "parameters": _has("parameters"),
    "forward": _forward,
    "timed": _timed,
    "choose": _has("chosen"),
    "burst_ready": _has("ready"),
    "burst_capture": _has("captured"),
    "burst": _has("done"),
}
