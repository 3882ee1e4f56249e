"""Events in words for the feed. Only events that mean something to a reader appear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from judge.evaluations.measures import Measure
from search.records.events import (
    BudgetAdded,
    BudgetTaken,
    ConcurrencyChanged,
    DeviceActivated,
    DeviceQuarantined,
    Event,
    KernelAsked,
    KernelJudged,
    KernelMarked,
    LeaseExpired,
    ManySteered,
    NodeBest,
    NodeCancelled,
    NodeCompleted,
    NodeWaiting,
    ProposerRetry,
    RecordedAct,
    RunBranched,
    RunEnded,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopping,
    Steered,
)
from search.records.models import RunEvent
from search.records.node_styles import look_of
from search.steering.labels import Said, told

_ACTION_LOOKS = {
    "steer.pin": "pinned",
    "steer.prune": "pruned",
    "steer.budget": "running",
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


def feed_item(row: RunEvent) -> FeedItem | None:
    """The line for an event, or None when it is not for the feed."""
    event = row.said
    if row.kind in HIDDEN or (isinstance(event, Steered) and event.is_part):  # its first event has the line
        return None
    action = _action(event, row)
    if action is not None:
        look, said = action
        return FeedItem(row.seq, row.created_at, look, said.text, said.number, detail=said.detail)
    look, text, measure, detail = _say(event, row.kind)
    return FeedItem(row.seq, row.created_at, look, text, event.node, measure, detail)


def _action(event: Event, row: RunEvent) -> tuple[str, Said] | None:
    """The look of an action and the sentence of the activity log for it; None for what is no action."""
    match event:
        case RecordedAct():  # its person is named in Activity only
            said = told(event.verb, event.after, event.before, row.run_id)
            detail = "Imported: done where the search was recorded." + (f" {said.detail}" if said.detail else "")
            return "person", replace(said, detail=detail)
        case BudgetAdded() | BudgetTaken():
            verb = "run.budget" if isinstance(event, BudgetAdded) else "run.budget.undo"
            return "running", told(verb, event.after or {}, event.before, row.run_id)
        case KernelAsked():
            return "proposing", told(_ASKED.get(event.kind, "kernel.race"), row.payload, run_id=row.run_id)
        case KernelMarked():
            mark = (event.doubt or "").replace("quarantined", "quarantine") or "release"
            said = told(f"kernel.{mark}", row.payload, run_id=row.run_id)
            return "ok" if mark == "release" else "suspect", replace(said, detail=event.reason or "")
        case RunBranched():
            return "person", told("run.branch", row.payload, {}, row.run_id)
        case Steered() | ConcurrencyChanged():
            look = f"steer.{event.verb}" if isinstance(event, ManySteered) else row.kind
            return _ACTION_LOOKS.get(look, "person"), told(row.kind, row.payload, {}, row.run_id)
    return None


def feed_items(events: Iterable[RunEvent]) -> list[FeedItem]:
    """The lines for these events, in order. A node told and best at once gets one line, the better one."""
    listed = list(events)
    best = {row.said.node for row in listed if isinstance(row.said, NodeBest)}
    kept = (row for row in listed if not (isinstance(row.said, NodeCompleted) and row.said.number in best))
    return [item for row in kept if (item := feed_item(row))]


def _say(event: Event, kind: str) -> tuple[str, str, Measure | None, str]:
    match event:
        case RunStarted():
            return "running", "Search started", None, ""
        case RunPaused():
            return "paused", "Paused; steps in flight finish first", None, event.reason
        case RunResumed():
            return "running", "Resumed", None, ""
        case RunStopping():
            return "paused", "Stopping; kernels on a device are judged first", None, ""
        case RunEnded():
            return event.state or "ended", f"Search {event.state or 'ended'}", None, event.reason or ""
        case NodeCompleted():
            return _completed(event)
        case NodeBest():
            if event.is_win:
                return "best", "is the new best", Measure.of(event), ""
            return "correct", "is the closest to PyTorch so far", Measure.of(event), ""
        case NodeWaiting():
            return "waiting", "is waiting for a manual reply", None, ""
        case NodeCancelled():
            return "cancelled", "was withdrawn", None, event.why or ""
        case KernelJudged():
            return _judged(event)
        case ProposerRetry():
            return "waiting", "is asking the proposer again", None, event.message or ""
        case LeaseExpired():
            return "waiting", "is restarted", None, event.message or "Its worker was lost."
        case DeviceQuarantined():
            text = f"{event.device or 'The device'} is quarantined; evaluations wait"
            return "quarantined", text, None, event.reason or ""
        case DeviceActivated():
            return "running", f"{event.device or 'The device'} is active again", None, ""
    return "proposing", kind.replace(".", " "), None, ""


def _judged(event: KernelJudged) -> tuple[str, str, Measure | None, str]:
    """What came of a kernel that was judged once more."""
    verdict, was = event.verdict or "", event.was or ""
    look = look_of(kind="", state="told", verdict=verdict, speedup=event.speedup)
    if event.call:
        return look, f"was raced: {event.call}", None, ""
    words = "was judged again: " + verdict.replace("_", " ")
    return look, words + ("" if verdict == was else f", previously {was.replace('_', ' ')}"), Measure.of(event), ""


def _completed(event: NodeCompleted) -> tuple[str, str, Measure | None, str]:
    look = look_of(kind="", state="told", verdict=event.verdict, speedup=event.speedup)
    reused = " (equal to an earlier candidate)" if event.reused else ""
    if event.speedup is not None:
        return look, ("is correct" if look == "correct" else "is correct but slower") + reused, Measure.of(event), ""
    return look, _ending(event.verdict) + reused, None, event.reason or ""


def _ending(verdict: str | None) -> str:
    """A verb phrase for a verdict without a speedup."""
    if not verdict:
        return "ended without a candidate"
    if verdict == "pass":
        return "is correct"
    return f"ended: {verdict.replace('_', ' ')}"
