"""Notices: made from the rows of other rooms, listed and counted; the mark until which a person has seen them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.core.cache import cache
from django.db.models import CharField, Count, F, Max, Q, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.translation import get_language, gettext, ngettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.activity.trail import trail_rows
from adaexplore_site.core.access import Role, can
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.notifications.models import NoticeMark
from judge.devices.benches import SILENT_S
from judge.devices.carrying import carry_commands
from judge.devices.models import Device
from judge.devices.services import served_devices
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from memory.adapt.models import AdaptRun
from memory.rules.queries import review_rows
from search.batches.budgets import ALERT, PAUSE
from search.batches.campaigns import campaign_rows as campaign_outcomes
from search.batches.models import Campaign
from search.engine.waiting import Carrying, carrying
from search.proposers import BY_HAND
from search.records.events import NodeBest
from search.records.models import Node, Run, RunEvent
from search.records.queries import run_summaries
from search.runs.listing import SILENT_AT_LEAST_S, run_row

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


def notice_mark_set(*, user: User, until: datetime) -> None:
    """The mark never goes back: of two pages the later one counts."""
    mark, created = NoticeMark.objects.get_or_create(user=user, defaults={"seen_at": until})
    if not created:
        NoticeMark.objects.filter(pk=mark.pk, seen_at__lt=until).update(seen_at=until)


QUARANTINE = "device.quarantine"
ITSELF = (QUARANTINE, ALERT, PAUSE, "adapt.pause")  # acts that nobody did


def _own_runs() -> QuerySet[Run]:
    """Searches that somebody started by themselves: those of campaigns and adapt runs speak through these."""
    alone = Q(campaign_entry=None) & ~Q(origin__in=(Run.Origin.ADAPT, Run.Origin.IMPORT))
    return Run.objects.filter(alone)


def ended_rows(since: datetime) -> QuerySet[Run]:
    """Searches that came to their own end; a stop is an act of somebody, which Activity tells."""
    return _own_runs().filter(ended_at__gt=since, state__in=(Run.State.FINISHED, Run.State.FAILED))


def campaign_rows(since: datetime) -> QuerySet[Campaign]:
    return Campaign.objects.filter(ended_at__gt=since, state=Campaign.State.FINISHED)


def adapt_rows(since: datetime) -> QuerySet[AdaptRun]:
    return AdaptRun.objects.filter(ended_at__gt=since, state=AdaptRun.State.FINISHED)


def best_rows(since: datetime) -> QuerySet[RunEvent]:
    """New bests of searches that are open or have ended since: of others none can be new. One that a mark made the
    best was found before, and one that beat nothing is none."""
    runs = _own_runs().filter(~Q(state__in=Run.ENDED) | Q(ended_at__gt=since))
    return RunEvent.objects.filter(run__in=runs, created_at__gt=since).new_bests()


def itself_rows(since: datetime) -> QuerySet[AuditEntry]:
    """What the product did or noticed by itself. A quarantine that holds is told as such."""
    held = quarantined_rows().annotate(key=Cast("pk", CharField())).values("key")
    acts = AuditEntry.objects.filter(object_type__in=("device", "budget", "adapt"), actor=None, verb__in=ITSELF)
    return acts.filter(created_at__gt=since).exclude(verb=QUARANTINE, object_id__in=held)


def quarantined_rows() -> QuerySet[Device]:
    return Device.objects.filter(state=Device.State.QUARANTINED, state_at__isnull=False)


def barred_rows() -> QuerySet[Problem]:
    """Problems in quarantine."""
    return Problem.objects.filter(quarantined_at__isnull=False).defer("source", "admission")


MOST = 100  # of each kind
MOST_SILENT = 20  # searches that are looked at closely
SILENT_KEPT_S = 15


@dataclass(frozen=True)
class Notice:
    """One sentence about a subject. `holds` is true while it is so, else it happened `at`."""

    at: datetime
    look: str
    text: StrOrPromise
    subject: StrOrPromise = ""
    url: str = ""
    detail: str = ""
    evaluation: Evaluation | None = None
    holds: bool = False

    @property
    def said(self) -> str:
        """For a live region."""
        return f"{self.subject}: {self.text}" if self.subject else str(self.text)


def notices(since: datetime, *, now: datetime, reviewer: bool) -> list[Notice]:
    """What came after `since`, newest first. A constant number of queries."""
    found = [*_ended(since), *_many_ended(since), *_bests(since), *_itself(since), *holding(now, reviewer=reviewer)]
    return sorted((one for one in found if one.at > since), key=lambda one: one.at, reverse=True)


def notices_count(since: datetime, *, now: datetime, reviewer: bool) -> int:
    """How many those are, for the bell of every page: one query, and one more for silent searches."""
    held = quarantined_rows().filter(state_at__gt=since), barred_rows().filter(quarantined_at__gt=since)
    counts = [*_happened(since), *map(_count, held)]
    newest = Subquery(review_rows(now).order_by("-created_at").values("created_at")[:1])
    found = User.objects.order_by("pk").values(total=reduce(add, counts), newest=newest)[:1].get()
    waits = reviewer and found["newest"] is not None and found["newest"] > since
    return int(found["total"]) + waits + sum(one.at > since for one in _silent(now))


def happened_count(since: datetime) -> int:
    """How many of `notices` do not hold, those beyond MOST of a kind too: one query."""
    found = User.objects.order_by("pk").values(total=reduce(add, _happened(since)))[:1].get()
    return int(found["total"])


def _happened(since: datetime) -> list[Coalesce]:
    return [
        _count(ended_rows(since)),
        _count(campaign_rows(since)),
        _count(adapt_rows(since)),
        _count(best_rows(since), Count("run", distinct=True)),
        _count(itself_rows(since)),
    ]


def _count(rows: QuerySet[Any], how: Count | None = None) -> Coalesce:
    one = rows.order_by().annotate(same=Value(1)).values("same").annotate(how=how or Count("pk"))
    return Coalesce(Subquery(one.values("how")), 0)


def holding(now: datetime, *, reviewer: bool) -> list[Notice]:
    """What is so now and wants somebody: quarantined devices and problems, silent searches, rules to review."""
    return [*_quarantined(), *_barred(), *_silent(now), *(_reviews(now) if reviewer else ())]


def _ended(since: datetime) -> Iterable[Notice]:
    for run in ended_rows(since).select_related("problem").order_by("-ended_at")[:MOST]:
        assert run.ended_at is not None
        text = _("The search has failed") if run.state == Run.State.FAILED else _("The search has finished")
        yield Notice(run.ended_at, run.state, text, *_of_run(run), run.stop_reason)


def _many_ended(since: datetime) -> Iterable[Notice]:
    for row in campaign_outcomes(list(campaign_rows(since).order_by("-pk")[:MOST])):
        campaign = row.batch
        assert campaign.ended_at is not None
        url = _at("campaign-detail", campaign.pk)
        yield Notice(campaign.ended_at, "finished", _("The campaign has finished"), campaign.title, url, row.outcome)
    for adapt in adapt_rows(since).order_by("-pk")[:MOST]:
        assert adapt.ended_at is not None
        url = _at("adapt-detail", adapt.pk)
        yield Notice(adapt.ended_at, "finished", _("The adapt run has finished"), adapt.title, url, adapt.stop_reason)


def _bests(since: datetime) -> Iterable[Notice]:
    """The last new best of each search."""
    per_run = best_rows(since).order_by().values("run").annotate(last=Max("seq"), times=Count("pk"))
    counts = {row["run"]: row for row in per_run.order_by("-run")[:MOST]}
    wanted = RunEvent.objects.filter(run__in=counts, seq__in={row["last"] for row in counts.values()}).of(NodeBest)
    last = [(row, NodeBest.read(row.payload)) for row in wanted if row.seq == counts[row.run_id]["last"]]
    runs = Run.objects.select_related("problem").in_bulk(counts)
    evaluations = Evaluation.objects.defer("source", "report").in_bulk([best.evaluation for _, best in last])
    for row, best in last:
        run, number, times = runs[row.run_id], best.number, counts[row.run_id]["times"]
        text = gettext("Node %(number)d is the new best")
        if times > 1:
            text = gettext("Node %(number)d is the new best, the last of %(times)d")
        evaluation = evaluations.get(best.evaluation)
        text %= {"number": number, "times": times}
        name, url = _of_run(run)[0], _at("node-detail", run.pk, number)
        yield Notice(row.created_at, "best", text, name, url, evaluation=evaluation)


def _itself(since: datetime) -> Iterable[Notice]:
    """As the audit says it."""
    actions = list(itself_rows(since).order_by("-pk")[:MOST])
    for one in trail_rows(actions):
        action, subject, quarantined = one.entry, one.subject, one.entry.verb == QUARANTINE
        text = _("Quarantined by the judge") if quarantined else one.text
        look = "quarantined" if quarantined else "paused" if action.verb != ALERT else "warned"
        detail = str(action.after.get("reason") or "")
        yield Notice(action.created_at, look, text, subject.label, subject.url, detail)


def _barred() -> Iterable[Notice]:
    for problem in barred_rows().order_by("-quarantined_at")[:MOST]:
        assert problem.quarantined_at is not None
        text, url = _("Quarantined: nothing of this problem is run"), _at("problem-detail", problem.slug)
        reason = problem.quarantine_reason
        yield Notice(problem.quarantined_at, "quarantined", text, problem.title, url, reason, holds=True)


def _quarantined() -> Iterable[Notice]:
    for device in quarantined_rows():
        assert device.state_at is not None
        text = _("Quarantined: nothing is judged on this device")
        url = _at("device-detail", device.pk)
        yield Notice(device.state_at, "quarantined", text, device.name, url, device.state_reason, holds=True)


def _silent(now: datetime) -> list[Notice]:
    """Running searches without an event for twice their median step, as their list says it, with the stage.

    Those whose device no worker serves are one notice: of the worker, not of each search. So are those that wait for
    the machine of an enrolled device.
    """
    key = f"notices-silent-{get_language()}"
    known: list[Notice] | None = cache.get(key)
    if known is None:
        known = list(_silent_read(now))
        cache.set(key, known, SILENT_KEPT_S)
    return known


def _silent_read(now: datetime) -> Iterable[Notice]:
    running = Run.objects.filter(state=Run.State.RUNNING).exclude(proposer__in=BY_HAND)
    quiet = now - timedelta(seconds=SILENT_AT_LEAST_S)
    last = RunEvent.objects.filter(run__in=running, seq=F("run__event_seq"), created_at__lt=quiet)
    silent = dict(last.order_by("created_at").values_list("run", "created_at")[:MOST_SILENT])
    runs = list(Run.objects.filter(pk__in=silent).select_related("problem", "device"))
    found = [(row.summary.run, row.silent_s) for row in (run_row(one, now=now) for one in run_summaries(runs))]
    unserved = _unserved(now) if any(silent_s for _, silent_s in found) else {}
    waiting: dict[int, list[datetime]] = defaultdict(list)  # unserved device -> since when its searches are silent
    carried = carrying(run for run, silent_s in found if silent_s)
    yield from _carried(carried.values())
    for run, silent_s in found:
        if run.pk in carried:
            continue
        at = silent[run.pk] + timedelta(seconds=SILENT_AT_LEAST_S)
        if silent_s and run.device_id in unserved:
            waiting[run.device_id].append(at)
        elif silent_s:
            text = gettext("No event for %(minutes)d min, stuck in %(stage)s")
            text %= {"minutes": max(int(silent_s // 60), 1), "stage": _stage(run)}
            yield Notice(at, "warned", text, *_of_run(run), holds=True)
    yield from _workerless(waiting, unserved)


def _carried(found: Iterable[Carrying]) -> Iterable[Notice]:
    """One notice for each device of another machine whose jobs wait to be carried."""
    devices: dict[int, list[Carrying]] = defaultdict(list)
    for one in found:
        devices[one.device.pk].append(one)
    for waits in devices.values():
        device, jobs = waits[0].device, sum(one.jobs for one in waits)
        text = ngettext("%(count)d job waits for its machine", "%(count)d jobs wait for its machine", jobs)
        command, *_rest = carry_commands(device, f"--waiting --device {device.name}")
        since, url = min(one.since for one in waits), _at("device-detail", device.pk)
        yield Notice(since, "waiting", text % {"count": jobs}, device.name, url, command, holds=True)


def _unserved(now: datetime) -> dict[int, str]:
    """Row id -> name of each device that a worker here should serve and none does."""
    beats = served_devices().filter(seen_at__gte=now - timedelta(seconds=SILENT_S))
    return dict(served_devices().exclude(pk__in=beats.values("pk")).values_list("pk", "name"))


def _workerless(waiting: Mapping[int, list[datetime]], unserved: Mapping[int, str]) -> Iterable[Notice]:
    """One notice where no worker runs at all, else one for each device without one that searches wait for."""
    if not waiting:
        return
    if served_devices().exclude(pk__in=unserved).exists():
        message = gettext("No worker serves %(device)s")
        groups = [(message % {"device": unserved[pk]}, times) for pk, times in waiting.items()]
    else:
        groups = [(gettext("No worker is running"), [at for times in waiting.values() for at in times])]
    for text, times in groups:
        what = ngettext(
            "%(count)d running search waits. Start the workers: make run, or manage.py up.",
            "%(count)d running searches wait. Start the workers: make run, or manage.py up.",
            len(times),
        )
        if len(times) >= MOST_SILENT:
            what = gettext("%(count)d or more running searches wait. Start the workers: make run, or manage.py up.")
        what %= {"count": len(times)}
        yield Notice(min(times), "warned", text, _("Fleet"), reverse("device-list"), what, holds=True)


def _stage(run: Run) -> str:
    """Where its oldest step in flight stands."""
    node = Node.objects.filter(run=run, state__in=Node.IN_FLIGHT).order_by("number").first()
    if node is None:
        return gettext("the choice of a next step")
    if node.state == Node.State.PROPOSING:
        stage = gettext("the proposal of node %(number)d")
    elif node.unclaimed:
        stage = gettext("the queue of %(device)s with node %(number)d")
    else:
        stage = gettext("the evaluation of node %(number)d")
    return stage % {"number": node.number, "device": run.device.name}


def _reviews(now: datetime) -> Iterable[Notice]:
    found = review_rows(now).aggregate(count=Count("pk"), newest=Max("created_at"))
    count, newest = found["count"], found["newest"]
    if count and newest is not None:
        text = ngettext("%(count)d rule waits for review", "%(count)d rules wait for review", count)
        yield Notice(newest, "waiting", text % {"count": count}, _("Rules"), _at("rule-list"), holds=True)


def _of_run(run: Run) -> tuple[str, str]:
    return f"{run.title or run.problem.title} #{run.pk}", _at("run-detail", run.pk)


def _at(route: str, *parts: int | str) -> str:
    return reverse(route, args=parts)


KEPT_S = 5  # a bell may show what held so long ago
SHOWN = timedelta(days=7)
MOST_SAID = 99


@dataclass(frozen=True)
class Bell:
    """How many notifications are new, `99+` when there are more."""

    count: int

    @property
    def words(self) -> str:
        return f"{MOST_SAID}+" if self.count > MOST_SAID else str(self.count)


def context(request: HttpRequest) -> dict[str, object]:
    """Template context: `bell`, asked of the database only where a template prints it."""
    return {"bell": SimpleLazyObject(lambda: bell_of(request.user, timezone.now()))}  # type: ignore[arg-type]


def bell_of(user: User, now: datetime) -> Bell:
    """As of now, or of a few seconds ago."""
    seen = seen_at(user, now)
    key = f"bell-{user.pk}-{seen.timestamp()}"
    known: Bell | None = cache.get(key)
    if known is None:
        known = Bell(notices_count(seen, now=now, reviewer=can(user, Role.REVIEWER)))
        cache.set(key, known, KEPT_S)
    return known


def notices_of(user: User, since: datetime, now: datetime) -> list[Notice]:
    """What this person may hear of."""
    return notices(since, now=now, reviewer=can(user, Role.REVIEWER))


def seen_at(user: User, now: datetime) -> datetime:
    """Who has never looked has seen what was before the account; nobody is shown more than a week."""
    mark = NoticeMark.objects.filter(user=user).values_list("seen_at", flat=True).first()
    return max(mark or user.date_joined, now - SHOWN)
