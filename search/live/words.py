"""Events in words for the feed. Only events that mean something to a reader appear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from judge.evaluations.measures import Measure
from judge.values import Basis
from search.records.events import HISTORY
from search.records.models import RunEvent
from search.records.node_styles import look_of
from search.steering.activity import Said, told

_RUN = {
    "run.started": ("running", "Search started"),
    "run.paused": ("paused", "Paused; steps in flight finish first"),
    "run.resumed": ("running", "Resumed"),
    "run.stopping": ("paused", "Stopping; kernels on a device are judged first"),
}
_ACTIONS = {"budget.added": "run.budget", "budget.taken": "run.budget.undo", "run.branched": "run.branch"}
_ACTION_LOOKS = {
    "steer.pin": "pinned",
    "steer.prune": "pruned",
    "steer.budget": "running",
    "run.budget": "running",
    "run.budget.undo": "running",
}
_ASKED = {"verify": "kernel.verify", "dispute": "kernel.dispute"}
HIDDEN = frozenset({"node.reserved", "node.proposed", "node.judging"})


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
    action = _action(event)
    if action is not None:
        look, said = action
        return FeedItem(event.seq, event.created_at, look, said.text, said.number, detail=said.detail)
    look, text, measure, detail = _say(event.kind, payload)
    return FeedItem(event.seq, event.created_at, look, text, payload.get("number"), measure, detail)


def _action(event: RunEvent) -> tuple[str, Said] | None:
    """The look of an action and the sentence of the activity log for it; None for what is no action."""
    kind, after, before = event.kind, event.payload, {}
    if kind.startswith("budget."):
        after, before = after.get("after", {}), after.get("before", {})
    elif kind == "kernel.asked":
        return "proposing", told(_ASKED.get(after.get("kind", ""), "kernel.race"), after, run_id=event.run_id)
    elif kind == "kernel.marked":
        return _marked(event)
    elif not kind.startswith("steer.") and kind not in (*_ACTIONS, "run.concurrency"):
        return None
    verb = _ACTIONS.get(kind, kind)
    look = f"steer.{after.get('verb')}" if verb == "steer.bulk" else verb
    return _ACTION_LOOKS.get(look, "person"), told(verb, after, before, event.run_id)


def _marked(event: RunEvent) -> tuple[str, Said]:
    """A kernel that is doubted, or believed again. The reason stands beside it."""
    mark = event.payload.get("doubt", "").replace("quarantined", "quarantine") or "release"
    said = told(f"kernel.{mark}", event.payload, run_id=event.run_id)
    look = "ok" if mark == "release" else "suspect"
    return look, replace(said, detail=event.payload.get("reason", ""))


def _history(event: RunEvent) -> FeedItem:
    """An action from before the import, and that it is one. Its person is named in Activity only."""
    said = told(event.payload["verb"], event.payload["after"], event.payload["before"], event.run_id)
    detail = "Imported: done where the search was recorded." + (f" {said.detail}" if said.detail else "")
    return FeedItem(event.seq, event.created_at, "person", said.text, said.number, detail=detail)


def feed_items(events: Iterable[RunEvent]) -> list[FeedItem]:
    """The lines for these events, in order. A node told and best at once gets one line, the better one."""
    listed = list(events)
    best = {event.payload.get("number") for event in listed if event.kind == "node.best"}
    kept = (e for e in listed if not (e.kind == "node.told" and e.payload.get("number") in best))
    return [item for event in kept if (item := feed_item(event))]


def _say(kind: str, payload: dict[str, Any]) -> tuple[str, str, Measure | None, str]:
    if kind in _RUN:
        return (*_RUN[kind], None, payload.get("reason", ""))
    if kind == "run.ended":
        state = payload.get("state", "ended")
        return state, f"Search {state}", None, payload.get("reason", "")
    if kind == "node.told":
        return _told(payload)
    if kind == "node.best":
        if payload.get("won", True):
            return "best", "is the new best", measure_of(payload), ""
        return "correct", "is the closest to PyTorch so far", measure_of(payload), ""
    if kind == "node.waiting":
        return "waiting", "is waiting for a manual reply", None, ""
    if kind == "node.cancelled":
        return "cancelled", "was withdrawn", None, payload.get("why", "")
    if kind == "kernel.judged":
        return _judged(payload)
    if kind == "proposer.retry":
        return "waiting", "is asking the proposer again", None, payload.get("message", "")
    if kind == "lease.expired":
        return "waiting", "is restarted", None, payload.get("message") or "Its worker was lost."
    if kind == "device.quarantined":
        return (
            "quarantined",
            f"{payload.get('device', 'The device')} is quarantined; evaluations wait",
            None,
            payload.get("reason", ""),
        )
    if kind == "device.activated":
        return "running", f"{payload.get('device', 'The device')} is active again", None, ""
    return "proposing", kind.replace(".", " "), None, ""


def _judged(payload: dict[str, Any]) -> tuple[str, str, Measure | None, str]:
    """What came of a kernel that was judged once more."""
    verdict, was = str(payload.get("verdict", "")), str(payload.get("was", ""))
    look = look_of(kind="", state="told", verdict=verdict, speedup=payload.get("speedup"))
    if payload.get("call"):
        return look, f"was raced: {payload['call']}", None, ""
    words = "was judged again: " + verdict.replace("_", " ")
    return look, words + ("" if verdict == was else f", previously {was.replace('_', ' ')}"), measure_of(payload), ""


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
