"""Events in words for the feed. Only events that mean something to a reader appear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from judge.measures import Measure
from judge.values import Basis
from search.act_words import act_detail, act_text, limits_text
from search.events import HISTORY
from search.live.looks import look_of
from search.models import RunEvent

_RUN = {
    "run.started": ("running", "Search started"),
    "run.paused": ("paused", "Paused; steps in flight end first"),
    "run.resumed": ("running", "Resumed"),
    "run.stopping": ("paused", "Stopping; kernels on a device are judged first"),
}
_BUDGET = ("budget.added", "budget.taken")
_ACT_LOOKS = {"steer.pin": "pinned", "steer.prune": "pruned", "steer.budget": "running"}
HIDDEN = frozenset({"node.reserved", "node.proposed", "node.judging"})
ABOUT_RUN = frozenset({"steer.undo", "steer.bulk", "steer.params", "steer.budget"})


@dataclass(frozen=True)
class FeedItem:
    """One line of the feed. `look` picks the mark; `number` links to a node; `measure` is printed with its basis."""

    seq: int
    at: datetime
    look: str
    text: str
    number: int | None = None
    measure: Measure | None = None
    detail: str = ""


def feed_item(event: RunEvent) -> FeedItem | None:
    """The line for an event, or None when it is not for the feed."""
    payload: dict[str, Any] = event.payload
    if event.kind in HIDDEN or (event.kind.startswith("steer.") and "of" in payload):  # its first event has the line
        return None
    if event.kind == HISTORY:
        return _history(event)
    number = None if event.kind in ABOUT_RUN else payload.get("number")
    look, text, measure, detail = _say(event.kind, payload)
    return FeedItem(event.seq, event.created_at, look, text, number, measure, detail)


def _history(event: RunEvent) -> FeedItem:
    """An act from before the import, and that it is one. Its person is named in Activity only."""
    verb, after = event.payload["verb"], event.payload["after"]
    number = None if verb in ABOUT_RUN else after.get("number")
    told = act_detail(verb, after, event.payload["before"])
    detail = "Imported history: done where the search was recorded." + (f" {told}" if told else "")
    return FeedItem(event.seq, event.created_at, "person", act_text(verb, after), number, detail=detail)


def feed_items(events: Iterable[RunEvent]) -> list[FeedItem]:
    """The lines for these events, in order. A node told and best at once gets one line, the better one."""
    listed = list(events)
    best = {event.payload.get("number") for event in listed if event.kind == "node.best"}
    kept = (e for e in listed if not (e.kind == "node.told" and e.payload.get("number") in best))
    return [item for event in kept if (item := feed_item(event))]


def _say(kind: str, payload: dict[str, Any]) -> tuple[str, str, Measure | None, str]:
    if kind in _BUDGET:
        detail = limits_text(payload.get("before", {}), payload.get("after", {}))
        return "running", act_text(kind, payload), None, detail
    if kind == "run.concurrency":
        return "person", act_text(kind, payload), None, ""
    if kind in _RUN:
        return (*_RUN[kind], None, payload.get("reason", ""))
    if kind == "run.ended":
        state = payload.get("state", "ended")
        return state, f"Search {state}", None, payload.get("reason", "")
    if kind == "node.told":
        return _told(payload)
    if kind == "node.best":
        return "best", "is the new best", measure_of(payload), ""
    if kind == "node.waiting":
        return "waiting", "waits for a reply by hand", None, ""
    if kind == "node.cancelled":
        return "cancelled", "was withdrawn", None, payload.get("why", "")
    if kind.startswith("steer.") or kind == "run.branched":
        named = f"steer.{payload.get('verb')}" if kind == "steer.bulk" else kind
        return _ACT_LOOKS.get(named, "person"), act_text(kind, payload), None, act_detail(kind, payload)
    if kind.startswith("kernel."):
        return _kernel(kind, payload)
    if kind == "proposer.retry":
        return "waiting", "asks the proposer again", None, payload.get("message", "")
    if kind == "lease.expired":
        return "waiting", "starts again", None, payload.get("message") or "Its worker was lost."
    if kind == "device.quarantined":
        return (
            "quarantined",
            f"{payload.get('device', 'The device')} is quarantined; work waits",
            None,
            payload.get("reason", ""),
        )
    if kind == "device.activated":
        return "running", f"{payload.get('device', 'The device')} judges again", None, ""
    return "proposing", kind.replace(".", " "), None, ""


def _kernel(kind: str, payload: dict[str, Any]) -> tuple[str, str, Measure | None, str]:
    """A kernel that is judged once more, what came of it, and marks."""
    if kind == "kernel.asked":
        verb = {"verify": "kernel.verify", "dispute": "kernel.dispute"}.get(payload.get("kind", ""), "kernel.race")
        return "proposing", act_text(verb, payload), None, ""
    if kind == "kernel.marked":
        doubt = payload.get("doubt", "").replace("quarantined", "quarantine") or "release"
        look = "ok" if doubt == "release" else "suspect"
        return look, act_text(f"kernel.{doubt}", payload), None, payload.get("reason", "")
    verdict, was = str(payload.get("verdict", "")), str(payload.get("was", ""))
    look = look_of(kind="", state="told", verdict=verdict, speedup=payload.get("speedup"))
    if payload.get("call"):
        return look, f"was raced: {payload['call']}", None, ""
    words = "was judged once more: " + verdict.replace("_", " ")
    return look, words + ("" if verdict == was else f", before {was.replace('_', ' ')}"), measure_of(payload), ""


def _told(payload: dict[str, Any]) -> tuple[str, str, Measure | None, str]:
    verdict, speedup = payload.get("verdict"), payload.get("speedup")
    look = look_of(kind="", state="told", verdict=verdict or None, speedup=speedup)
    reused = " (equal to an earlier candidate)" if payload.get("reused") else ""
    if speedup is not None:
        return look, ("is correct" if look == "correct" else "is correct but slower") + reused, measure_of(payload), ""
    return look, _ending(verdict) + reused, None, payload.get("reason", "")


def _ending(verdict: str | None) -> str:
    """A verb phrase for a verdict without a speedup."""
    if not verdict:
        return "ended without a candidate"
    if verdict == "pass":
        return "is correct"
    return f"ended: {verdict.replace('_', ' ')}"


def measure_of(payload: dict[str, Any]) -> Measure | None:
    """The speedup an event reports, with its evidence; None when it reports none."""
    value, basis = payload.get("speedup"), payload.get("basis")
    if value is None or not basis:
        return None
    return Measure(value, payload.get("low"), payload.get("high"), payload.get("n"), Basis(basis))
