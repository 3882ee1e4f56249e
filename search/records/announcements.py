"""Which changes of a search the outside is told of, and in which words: events for webhooks."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from adaexplore_site.core.outbox import BEST, BUDGET, FAILED, FINISHED, webhook_tell
from judge.values import Basis
from search.records.models import Run

SPENT = frozenset({"evaluations", "device_s", "tokens", "usd", "wall_s"})  # limits, not goals or steps


def tell(*, run: Run, kind: str, payload: dict[str, Any]) -> None:
    """Write what an event of a run's log means for webhooks, in its transaction. Most events mean nothing, and the
    hundreds of searches of an adapt run are told to nobody."""
    if run.origin == Run.Origin.ADAPT:
        return
    if kind == "node.best" and "because" not in payload and payload.get("won", True):
        best = {name: payload.get(name) for name in ("number", "speedup", "low", "high", "n")}
        best["basis"] = "MODELLED" if payload.get("basis") == Basis.MODELLED else payload.get("basis")
        _tell(BEST, run, {"best": best})
    elif kind == "run.ended":
        ended = {"reason": payload.get("reason", ""), "told": payload.get("told"), "best_node": payload.get("won")}
        _tell(FAILED if payload.get("state") == Run.State.FAILED else FINISHED, run, ended)
        if payload.get("limit") in SPENT:
            _tell(BUDGET, run, {**ended, "limit": payload["limit"]})


def _tell(event: str, run: Run, more: dict[str, Any]) -> None:
    search = {
        "id": run.pk,
        "title": run.title,
        "problem": run.problem.slug,
        "device": run.device.name,
        "state": run.state,
        "page": f"/s/{run.pk}/",
        "api": f"/api/v1/searches/{run.pk}",
    }
    webhook_tell(event=event, body={"search": search, **more}, now=timezone.now())
