"""The cockpit page and the JSON it lives on. The page is whole without scripts; scripts only keep it fresh."""

from __future__ import annotations

import json
import secrets

from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotModified
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.actions import registry
from judge.evaluations.beside import baseline_text
from judge.values import BASELINES
from search.live import frames
from search.live.chart import chart_of
from search.live.columns import node_columns, packed, replay_columns
from search.live.panels import budget_document, panel_context
from search.live.table_view import PAGE, outline
from search.nodes.page import rules_panel
from search.records.kinds import RUN
from search.records.models import Run
from search.records.node_styles import LABELS, STYLES
from search.steering.forms import ConcurrencyForm, LimitsForm, ParamsForm

JOINED = ("problem", "device", "owner", "branched_from", "campaign_entry", "adapt_task", "adapt_control")
LEGEND = (
    ("root", _("start")),
    ("best", _("new best")),
    ("correct", _("correct")),
    ("slower", _("correct, slower")),
    ("wrong", _("failed")),
    ("compile-error", _("does not compile")),
    ("suspect", _("not settled")),
    ("proposing", _("in flight")),
    ("waiting", _("waiting for a person")),
    ("pinned", _("pinned")),
    ("pruned", _("pruned")),
    ("person", _("manual influence")),
)


@require_safe
@never_cache
def run_detail(request: HttpRequest, run_id: int) -> HttpResponseBase:
    """The cockpit, everything in place: header, chart, tree as a treegrid, feed, failures."""
    run = registry.shown(RUN, run_id, *JOINED)
    columns = node_columns(run)
    context = panel_context(run)
    evidence = context["evidence"]
    first = _whole(request.GET.get("from"))
    chart = chart_of(columns)
    rows, total = outline(columns, evidence.standing, chart.records, first=first)
    context |= {
        "rows": rows,
        "rows_total": total,
        "rows_before": max(0, first - PAGE) if first else None,
        "rows_after": first + PAGE if first + PAGE < total else None,
        "chart": chart,
        "feed": frames.recent_feed(run)[::-1],
        "selected": _whole(request.GET.get("n")) if request.GET.get("n") else None,
        "baselines": {one.subject: baseline_text(one.subject) for one in BASELINES.values()},
        "styles": {"names": STYLES, "labels": LABELS},
        "legend": LEGEND,
        "can_replay": total > 1,
        "rules_panel": rules_panel(run),
        "controls": _controls(run),
        "limits": LimitsForm(run=run, auto_id=False),
        "params": ParamsForm(run=run, auto_id=False),
        "concurrency": ConcurrencyForm(initial={"concurrency": run.concurrency}, auto_id=False),
    }
    return render(request, "live/run_detail.html", context)


@require_safe
@never_cache
def run_snapshot(request: HttpRequest, run_id: int) -> HttpResponseBase:
    """Everything the page draws as columns, and the event number it stands at. `?packed=1`: columns in short."""
    short = request.GET.get("packed") == "1"

    def text(run: Run) -> str:
        document = frames.snapshot(run)
        if short:
            document["nodes"] = packed(document["nodes"])
        return json.dumps(document, separators=(",", ":"))

    return _json(request, run_id, "packed" if short else "snapshot", text)


@require_safe
@never_cache
def run_events(request: HttpRequest, run_id: int) -> HttpResponseBase:
    """The frame since `?since=`, as a socket would send it. For browsers whose socket does not get through."""
    since = _whole(request.GET.get("since"))
    return _json(request, run_id, f"events-{since}", lambda run: frames.build(run.pk, since).text)


@require_safe
@never_cache
def run_budget(request: HttpRequest, run_id: int) -> HttpResponseBase:
    """Limits, what is spent and held, and the burn-down as columns over the completed steps."""
    return _json(request, run_id, "budget", lambda run: json.dumps(budget_document(run), separators=(",", ":")))


@require_safe
@never_cache
def run_replay(request: HttpRequest, run_id: int) -> HttpResponseBase:
    """When each node was born and completed, so that the page can show any earlier moment."""
    return _json(request, run_id, "replay", lambda run: json.dumps(replay_columns(run), separators=(",", ":")))


def _controls(run: Run) -> list[dict[str, object]]:
    """The steering forms, each with a key of its own so that a repeated submit is one act."""
    return [
        {
            "name": name,
            "label": label,
            "url": reverse(address, args=[run.pk]),
            "key": secrets.token_urlsafe(16),
            "shown": run.state in states,
        }
        for name, label, address, states in _CONTROLS
    ]


# As static/js/controls.js shows and hides them while the page is open.
_CONTROLS = (
    ("pause", _("Pause"), "run-pause", {Run.State.RUNNING}),
    ("resume", _("Resume"), "run-resume", {Run.State.PAUSED, Run.State.STOPPING, Run.State.STOPPED}),
    ("stop", _("Stop"), "run-stop", {Run.State.RUNNING, Run.State.PAUSED}),
    ("kill", _("Stop now"), "run-stop", {Run.State.STOPPING}),
)


def _json(request: HttpRequest, run_id: int, what: str, text) -> HttpResponseBase:  # type: ignore[no-untyped-def]
    """A JSON answer with an ETag over the run's counter: nothing new costs 304 and no rendering."""
    run = _run(run_id)
    etag = f'W/"{run.pk}-{what}-{run.event_seq}"'
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    return HttpResponse(text(run), content_type="application/json", headers={"ETag": etag})


def _run(run_id: int) -> Run:
    runs: models.QuerySet[Run] = Run.objects.select_related(*JOINED)
    return get_object_or_404(runs, pk=run_id)


def _whole(text: str | None) -> int:
    """A cursor out of the query string; anything that is not a whole number of at least 0 counts as 0."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 18 else 0
