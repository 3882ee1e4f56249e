"""Frames: everything that changed in a run since a cursor, as one JSON text. The same text by socket and by polling."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.template.loader import render_to_string

from judge.evaluations.measures import Measure
from search.live.columns import changed_by, node_columns
from search.live.panels import panel_context
from search.records.events import EVENTS, NodeBest, NodeCompleted, Steered
from search.records.log import steering_of
from search.records.models import Run, RunEvent, RunEventQuerySet
from search.steering.activity import said_of_event

HIDDEN = frozenset(name for name, kind in EVENTS.items() if kind.hidden)


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
    if event.hidden or (isinstance(event, Steered) and event.is_part):  # its first event has the line
        return None
    line = event.line()
    if not line.verb:
        text, measure = line.text or row.kind.replace(".", " "), Measure.of(event) if line.measured else None
        return FeedItem(row.seq, row.created_at, line.style, text, event.node, measure, line.detail or "")
    said = said_of_event(line.verb, row.payload if line.after is None else line.after, line.before, row.run_id)
    detail = " ".join(filter(None, (line.note, said.detail if line.detail is None else line.detail)))
    return FeedItem(row.seq, row.created_at, line.style, said.text, said.number, detail=detail)


def feed_items(events: Iterable[RunEvent]) -> list[FeedItem]:
    """The lines for these events, in order. A node completed and best at once gets one line, the better one."""
    listed = list(events)
    best = {row.said.node for row in listed if isinstance(row.said, NodeBest)}
    kept = (row for row in listed if not (isinstance(row.said, NodeCompleted) and row.said.number in best))
    return [item for row in kept if (item := feed_item(row))]


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
