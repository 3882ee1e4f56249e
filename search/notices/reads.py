"""Reads notifications from rows: what has happened since a moment, and what holds now and wants somebody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.cache import cache
from django.db.models import Count, F, Max, Q
from django.urls import reverse

from adaexplore_site.models import Action
from judge.models import Device, Evaluation
from memory.models import AdaptRun
from memory.rule_selectors import reviews_waiting
from search.acts.said import Subjects, said
from search.models import Campaign, Node, Run, RunEvent
from search.run_rows import SILENT_AT_LEAST_S, run_row
from search.selectors import run_summaries
from search.services.leases import QUEUED, RETRY
from search.services.spend_budget import ALERT, PAUSE

MOST = 100  # of each kind
MOST_SILENT = 20  # searches that are looked at closely
SILENT_KEPT_S = 15
ITSELF = ("device.quarantine", ALERT, PAUSE, "adapt.pause")  # acts that nobody did


@dataclass(frozen=True)
class Notice:
    """One sentence about a subject. `holds` is true while it is so, else it happened `at`."""

    at: datetime
    look: str
    text: str
    subject: str = ""
    url: str = ""
    detail: str = ""
    evaluation: Evaluation | None = None
    holds: bool = False

    @property
    def said(self) -> str:
        """For a live region."""
        return f"{self.subject}: {self.text}" if self.subject else self.text


def notices(since: datetime, *, now: datetime, reviewer: bool) -> list[Notice]:
    """What came after `since`, newest first. A constant number of queries."""
    found = [*_ended(since), *_many_ended(since), *_bests(since), *_itself(since), *holding(now, reviewer=reviewer)]
    return sorted((one for one in found if one.at > since), key=lambda one: one.at, reverse=True)


def holding(now: datetime, *, reviewer: bool) -> list[Notice]:
    """What is so now and wants somebody: quarantined devices, silent searches, rules to review."""
    return [*_quarantined(), *_silent(now), *(_reviews(now) if reviewer else ())]


def _own_runs() -> Q:
    """Searches that somebody started by themselves: those of campaigns and adapt runs speak through these."""
    return Q(campaign_entry=None) & ~Q(origin__in=(Run.Origin.ADAPT, Run.Origin.IMPORT))


def _ended(since: datetime) -> Iterable[Notice]:
    ended = Run.objects.filter(_own_runs(), ended_at__gt=since, state__in=(Run.State.FINISHED, Run.State.FAILED))
    for run in ended.select_related("problem").order_by("-ended_at")[:MOST]:
        assert run.ended_at is not None
        yield Notice(run.ended_at, run.state, f"The search has {run.state}", *_of_run(run), run.stop_reason)


def _many_ended(since: datetime) -> Iterable[Notice]:
    for model, words, route in ((Campaign, "campaign", "campaign-detail"), (AdaptRun, "adapt run", "adapt-detail")):
        rows = model.objects.filter(ended_at__gt=since, state="finished")
        for row in rows.order_by("-pk")[:MOST]:
            reason = getattr(row, "stop_reason", "")
            assert row.ended_at is not None
            yield Notice(row.ended_at, "finished", f"The {words} has finished", row.title, _at(route, row.pk), reason)


def _bests(since: datetime) -> Iterable[Notice]:
    """The last new best of each search that is open or has ended since."""
    open_or_late = Run.objects.filter(_own_runs()).filter(Q(ended_at=None) | Q(ended_at__gt=since))
    runs = (
        open_or_late.select_related("problem")
        .order_by("-pk")
        .in_bulk(list(open_or_late.order_by("-pk").values_list("pk", flat=True)[:MOST]))
    )
    events = RunEvent.objects.filter(run__in=runs, kind="node.best", created_at__gt=since).order_by()
    counts = {row["run"]: row for row in events.values("run").annotate(last=Max("seq"), times=Count("pk"))}
    wanted = RunEvent.objects.filter(run__in=counts, kind="node.best", seq__in={row["last"] for row in counts.values()})
    last = [event for event in wanted if event.seq == counts[event.run_id]["last"]]
    evaluations = Evaluation.objects.defer("source", "report").in_bulk([one.payload["evaluation"] for one in last])
    for event in last:
        run, number, times = runs[event.run_id], event.payload["number"], counts[event.run_id]["times"]
        text = f"Node {number} is the new best" + (f", the last of {times}" if times > 1 else "")
        evaluation = evaluations.get(event.payload["evaluation"])
        name, _ = _of_run(run)
        yield Notice(event.created_at, "best", text, name, _at("node-detail", run.pk, number), evaluation=evaluation)


def _itself(since: datetime) -> Iterable[Notice]:
    """What the product did or noticed by itself, as the audit says it."""
    rows = Action.objects.filter(object_type__in=("device", "budget", "adapt"), actor=None, verb__in=ITSELF)
    still = [str(pk) for pk in Device.objects.filter(state=Device.State.QUARANTINED).values_list("pk", flat=True)]
    rows = rows.exclude(verb="device.quarantine", object_id__in=still)  # that holds, and is told as such
    actions = list(rows.filter(created_at__gt=since).order_by("-pk")[:MOST])
    subjects = Subjects.of(actions)
    for action in actions:
        subject, quarantined = subjects.subject(action), action.verb == "device.quarantine"
        text = "Quarantined by the judge" if quarantined else said(action, subjects)
        look = "quarantined" if quarantined else "paused" if action.verb != ALERT else "warned"
        detail = str(action.after.get("reason") or "")
        yield Notice(action.created_at, look, text, subject.label, subject.url, detail)


def _quarantined() -> Iterable[Notice]:
    for device in Device.objects.filter(state=Device.State.QUARANTINED, state_at__isnull=False):
        assert device.state_at is not None
        text = "Quarantined: nothing is judged there"
        url = _at("device-detail", device.pk)
        yield Notice(device.state_at, "quarantined", text, device.name, url, device.state_reason, holds=True)


def _silent(now: datetime) -> list[Notice]:
    """Running searches without an event for twice their median step, as their list says it, with the stage."""
    known: list[Notice] | None = cache.get("notices-silent")
    if known is None:
        known = list(_silent_read(now))
        cache.set("notices-silent", known, SILENT_KEPT_S)
    return known


def _silent_read(now: datetime) -> Iterable[Notice]:
    running = Run.objects.filter(state=Run.State.RUNNING).exclude(proposer="manual")
    quiet = now - timedelta(seconds=SILENT_AT_LEAST_S)
    last = RunEvent.objects.filter(run__in=running, seq=F("run__event_seq"), created_at__lt=quiet)
    silent = dict(last.order_by("created_at").values_list("run", "created_at")[:MOST_SILENT])
    runs = list(Run.objects.filter(pk__in=silent).select_related("problem", "device"))
    for summary in run_summaries(runs):
        row = run_row(summary, now=now)
        if row.silent_s:
            minutes = max(int(row.silent_s // 60), 1)
            text = f"No event for {minutes} min, stuck in {_stage(summary.run)}"
            yield Notice(
                silent[summary.run.pk] + timedelta(seconds=SILENT_AT_LEAST_S),
                "warned",
                text,
                *_of_run(summary.run),
                holds=True,
            )


def _stage(run: Run) -> str:
    """Where its oldest step in flight stands."""
    node = Node.objects.filter(run=run, state__in=Node.IN_FLIGHT).order_by("number").first()
    if node is None:
        return "the choice of a next step"
    if node.state == Node.State.PROPOSING:
        return f"the proposal of node {node.number}"
    if node.lease_owner in ("", QUEUED, RETRY):
        return f"the queue of {run.device.name} with node {node.number}"
    return f"the judging of node {node.number}"


def _reviews(now: datetime) -> Iterable[Notice]:
    count, newest = reviews_waiting(now)
    if count and newest is not None:
        text = f"{count} rule{'s' * (count != 1)} {'wait' if count != 1 else 'waits'} for a review"
        yield Notice(newest, "waiting", text, "Rules", _at("rule-list"), holds=True)


def _of_run(run: Run) -> tuple[str, str]:
    return f"{run.title or run.problem.title} #{run.pk}", _at("run-detail", run.pk)


def _at(route: str, *parts: int) -> str:
    return reverse(route, args=parts)
