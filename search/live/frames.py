"""Frames: everything that changed in a run since a cursor, as one JSON text. The same text by socket and by polling."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from judge.evaluations.measures import Measure, verdict_look
from search.live.columns import changed_by, node_columns
from search.live.panels import panel_context
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
from search.records.log import steering_of
from search.records.models import Run, RunEvent, RunEventQuerySet
from search.steering.activity import Said, said_of_event

_ACTION_STYLES = {
    "steer.pin": "pinned",
    "steer.prune": "pruned",
    "steer.budget": "running",
}
_ASKED = {"verify": "kernel.verify", "dispute": "kernel.dispute"}
HIDDEN = frozenset({"node.reserved", "node.proposed", "node.judging"})


@dataclass(frozen=True)
class FeedItem:
    """One line of the feed. `style` picks the mark; `number` links to a node; `measure` is printed with its basis."""

    seq: int
    at: datetime
    style: str
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
        style, said = action
        return FeedItem(row.seq, row.created_at, style, said.text, said.number, detail=said.detail)
    style, text, measure, detail = _say(event, row.kind)
    return FeedItem(row.seq, row.created_at, style, text, event.node, measure, detail)


def _action(event: Event, row: RunEvent) -> tuple[str, Said] | None:
    """The style of an action and the sentence of the activity log for it; None for what is no action."""
    match event:
        case RecordedAct():  # its person is named in Activity only
            said = said_of_event(event.verb, event.after, event.before, row.run_id)
            detail = " ".join(filter(None, [_("Imported: done where the search was recorded."), said.detail]))
            return "person", replace(said, detail=detail)
        case BudgetAdded() | BudgetTaken():
            verb = "run.budget" if isinstance(event, BudgetAdded) else "run.budget.undo"
            return "running", said_of_event(verb, event.after or {}, event.before, row.run_id)
        case KernelAsked():
            return "proposing", said_of_event(_ASKED.get(event.kind, "kernel.race"), row.payload, run_id=row.run_id)
        case KernelMarked():
            mark = (event.doubt or "").replace("quarantined", "quarantine") or "release"
            said = said_of_event(f"kernel.{mark}", row.payload, run_id=row.run_id)
            return "ok" if mark == "release" else "suspect", replace(said, detail=event.reason or "")
        case RunBranched():
            return "person", said_of_event("run.branch", row.payload, {}, row.run_id)
        case Steered() | ConcurrencyChanged():
            style = f"steer.{event.verb}" if isinstance(event, ManySteered) else row.kind
            return _ACTION_STYLES.get(style, "person"), said_of_event(row.kind, row.payload, {}, row.run_id)
    return None


def feed_items(events: Iterable[RunEvent]) -> list[FeedItem]:
    """The lines for these events, in order. A node completed and best at once gets one line, the better one."""
    listed = list(events)
    best = {row.said.node for row in listed if isinstance(row.said, NodeBest)}
    kept = (row for row in listed if not (isinstance(row.said, NodeCompleted) and row.said.number in best))
    return [item for row in kept if (item := feed_item(row))]


def _say(event: Event, kind: str) -> tuple[str, str, Measure | None, str]:
    match event:
        case RunStarted():
            return "running", _("Search started"), None, ""
        case RunPaused():
            return "paused", _("Paused; steps in flight finish first"), None, event.reason
        case RunResumed():
            return "running", _("Resumed"), None, ""
        case RunStopping():
            return "paused", _("Stopping; kernels on a device are judged first"), None, ""
        case RunEnded():
            return event.state or "ended", _ended(event.state), None, event.reason or ""
        case NodeCompleted():
            return _completed(event)
        case NodeBest():
            if event.is_win:
                return "best", _("is the new best"), Measure.of(event), ""
            return "correct", _("is the closest to PyTorch so far"), Measure.of(event), ""
        case NodeWaiting():
            return "waiting", _("is waiting for a manual reply"), None, ""
        case NodeCancelled():
            return "cancelled", _("was withdrawn"), None, event.why or ""
        case KernelJudged():
            return _judged(event)
        case ProposerRetry():
            return "waiting", _("is asking the proposer again"), None, event.message or ""
        case LeaseExpired():
            return "waiting", _("is restarted"), None, event.message or _("Its worker was lost.")
        case DeviceQuarantined():
            text = _("%(device)s is quarantined; evaluations wait")
            return "quarantined", text % {"device": event.device or _("The device")}, None, event.reason or ""
        case DeviceActivated():
            text = _("%(device)s is active again")
            return "running", text % {"device": event.device or _("The device")}, None, ""
    return "proposing", kind.replace(".", " "), None, ""


def _ended(state: str | None) -> str:
    known = {"finished": _("Search finished"), "stopped": _("Search stopped"), "failed": _("Search failed")}
    return known.get(state or "", _("Search ended"))


def _judged(event: KernelJudged) -> tuple[str, str, Measure | None, str]:
    """What came of a kernel that was judged once more."""
    verdict, was = event.verdict or "", event.was or ""
    style = verdict_look(verdict, event.speedup)
    if event.call:
        return style, _("was raced: %(call)s") % {"call": event.call}, None, ""
    again = _("was judged again: %(verdict)s")
    text = again if verdict == was else _("was judged again: %(verdict)s, previously %(was)s")
    names = {"verdict": verdict.replace("_", " "), "was": was.replace("_", " ")}
    return style, text % names, Measure.of(event), ""


def _completed(event: NodeCompleted) -> tuple[str, str, Measure | None, str]:
    style, measure = verdict_look(event.verdict or "", event.speedup), None
    if not event.verdict:
        text = _("ended without a candidate")
    elif event.speedup is not None:
        text, measure = _("is correct") if style == "correct" else _("is correct but slower"), Measure.of(event)
    elif event.verdict == "pass":
        text = _("is correct")
    else:
        text = _("ended: %(verdict)s") % {"verdict": event.verdict.replace("_", " ")}
    if event.reused:
        text = _("%(ended)s (equal to an earlier candidate)") % {"ended": text}
    return style, text, measure, "" if event.speedup is not None else event.reason or ""


MAX_GAP = 2000  # events; beyond this the browser fetches the snapshot
MAX_BYTES = 256 * 1024  # a frame above this is also better fetched, compressed, over HTTP
MAX_FEED = 100  # lines; the page shows no more
PANELS = {
    "evidence": "live/_evidence.html",
    "failures": "failures/_failures.html",
    "budget": "live/_budget.html",
    "steering": "steering/_steering.html",
}


@dataclass(frozen=True)
class Frame:
    """What lies in (`since`, `to`]. With `resync` the text says so and holds no change."""

    since: int
    to: int
    text: str
    resync: bool = False


def head_of(run_id: int) -> int | None:
    """Number of the run's newest event; None when the run is gone."""
    return Run.objects.filter(pk=run_id).values_list("event_seq", flat=True).first()


def build(run_id: int, since: int) -> Frame:
    """The frame from `since` to the newest event. Raises Run.DoesNotExist when the run is gone.

    Node rows and panels are state: they may already be newer than `to`, and applying them twice is harmless. Only the
    feed is history, and each line carries its own number.
    """
    run = Run.objects.select_related("problem", "device").get(pk=run_id)
    if since > run.event_seq or run.event_seq - since > MAX_GAP:
        return _resync(since, run.event_seq)
    events = list(_events(run).filter(seq__gt=since, seq__lte=run.event_seq))
    to = events[-1].seq if events else since
    body: dict[str, Any] = {
        "type": "frame",
        "run": run.pk,
        "from": since,
        "to": to,
        "head": run.event_seq,
        "state": run.state,
        "t": int(events[-1].created_at.timestamp() * 1000) if events else None,
    }
    if events:
        numbers = {row.said.node for row in events if row.said.node is not None}
        body["nodes"] = node_columns(run, numbers | changed_by(events, steering_of(run.pk)))
        body["feed"] = feed_html(run, feed_items(events)[-MAX_FEED:])
        body["html"] = panels_html(run)
    text = json.dumps(body, separators=(",", ":"))
    return _resync(since, run.event_seq) if len(text) > MAX_BYTES else Frame(since, to, text)


def snapshot(run: Run) -> dict[str, Any]:
    """Everything the page draws, as one frame from nothing. Read the counter first: a newer row does no harm."""
    return {
        "type": "snapshot",
        "run": run.pk,
        "from": 0,
        "to": run.event_seq,
        "head": run.event_seq,
        "state": run.state,
        "nodes": node_columns(run),
        "feed": feed_html(run, recent_feed(run)),
        "html": panels_html(run),
    }


def recent_feed(run: Run, limit: int = MAX_FEED) -> list[FeedItem]:
    """The newest lines of the feed, oldest first."""
    newest_first = _events(run).filter(seq__lte=run.event_seq).exclude(kind__in=HIDDEN).without_parts().order_by("-seq")
    # A node completed and best at once is two events and one line: fewer lines than the page shows would leave a hole
    # between them and the older ones that stand there.
    return feed_items(reversed(newest_first[: 2 * limit]))[-limit:]


def feed_html(run: Run, items: list[FeedItem]) -> list[dict[str, Any]]:
    """Each line with its number, so that the browser can leave out what it already shows."""
    return [
        {"seq": item.seq, "html": render_to_string("live/_feed_item.html", {"run": run, "item": item}).strip()}
        for item in items
    ]


def panels_html(run: Run) -> dict[str, str]:
    """The panels by the id of the element they fill. Neutral to the viewer: no form, token, role or name in them."""
    context = panel_context(run)
    return {name: render_to_string(template, context) for name, template in PANELS.items()}


def _events(run: Run) -> RunEventQuerySet:
    return RunEvent.objects.filter(run=run).order_by("seq")


def _resync(since: int, head: int) -> Frame:
    return Frame(since, head, json.dumps({"type": "resync", "head": head}, separators=(",", ":")), resync=True)
