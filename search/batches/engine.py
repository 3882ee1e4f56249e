"""The one engine of batches: starts, pauses, resumes, stops and advances them; a `Source` says what differs.

Everything is decided from rows under the batch's row lock, in one transaction. A process that dies before the commit
has done nothing; after one that dies later, the next beat goes on; a second call changes nothing.
"""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import clip
from judge.bench.runner import Bench
from judge.devices.models import Device
from judge.problems.admission import STOPPED, admission_queue, problem_admit
from judge.problems.models import Problem
from judge.problems.preflight import Preflight, preflight
from judge.values import JudgeError, Stopped
from memory.adapt.composing import Composed
from memory.adapt.models import Batch, BatchItem
from memory.prompting.choices import MemoryChoice
from search.algorithm.params import SearchParams
from search.engine.driver import drive
from search.proposers import ATTENDED, available
from search.proposers.protocol import Proposer
from search.records.models import Run
from search.records.queue import FollowUp
from search.runs.services import MAX_CONCURRENCY, dialect_check, run_pause, run_resume, run_stop

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from django.db.models import QuerySet
    from django_stubs_ext import StrOrPromise

MAX_AT_ONCE = 64
ASK_AGAIN_S = 30.0  # a preflight that was asked for and has not begun by then is asked for again
LEASE_S = 60.0  # for so long beat leaves a batch alone after a sign of life of the command that drives it
LOOK_AGAIN_S = 2.0

Writer = Callable[[str, int, int], Composed]  # (composer's name, seed of the adapt run, place)


@dataclass(frozen=True)
class Tools:
    """What a command drives a batch with. `report` is called after every follow-up task of a search, `admitting` before
    a preflight, `decided` after a preflight or a refusal; `elsewhere` as `drive` calls it."""

    proposer_for: Callable[[str], Proposer]
    bench_for: Callable[[Device], Bench]
    sleep: Callable[[float], None]
    report: Callable[[Run], None]
    admitting: Callable[[Any], None] = lambda _item: None
    decided: Callable[[Any], None] = lambda _item: None
    write: Writer | None = None
    elsewhere: Callable[[], Iterable[FollowUp]] = tuple


class Source(ABC):
    """One kind of batch: its rows, and which searches it starts next."""

    name: ClassVar[str]  # in audit entries; also the field of an item that holds its batch
    noun: ClassVar[StrOrPromise]
    rows: ClassVar[Any]  # model of the batch
    items: ClassVar[Any]  # model of its items
    searched_as: ClassVar[tuple[str, ...]]  # names by which a search knows the item, one per arm
    tasks: ClassVar[tuple[str, ...]]  # follow-up tasks of its items
    unread: ClassVar[tuple[str, ...]] = ("problem__source",)  # large columns that `fill` does not need
    items_first: ClassVar[bool] = False  # a driver does the items' tasks before it goes on with an open search

    @abstractmethod
    def fill(self, batch: Any, items: list[Any], now: datetime, *, settled: bool) -> list[FollowUp]:
        """Start searches in the free places, or end the batch; under its lock. What the caller sends.

        `settled`: every failure so far has been learned from.
        """

    # Rows

    def locked(self, batch_id: int) -> Any:
        """The batch with its row locked until commit, or None when it is gone."""
        rows = self.rows.objects.select_for_update(of=("self",)).select_related("device")
        return rows.filter(pk=batch_id).first()

    def searches(self, *batches: int | Batch) -> QuerySet[Run]:
        """Every search of these batches."""
        return Run.objects.filter(self.owns(batches))

    def owns(self, batches: Iterable[int | Batch]) -> Q:
        """The condition on a search that it belongs to one of these."""
        found, given = Q(), list(batches)
        for name in self.searched_as:
            found |= Q(**{f"{name}__{self.name}__in": given})
        return found

    def follow_ups(self, batch: Batch) -> list[FollowUp]:
        """What to send so that its running searches go on at once."""
        running = self.searches(batch).filter(state=Run.State.RUNNING).order_by("pk")
        return [FollowUp("advance", pk) for pk in running.values_list("pk", flat=True)]

    # Start, pause, resume, stop. Each leaves an audit entry; a key makes a repeated call one action.

    def create(
        self,
        fields: Mapping[str, Any],
        items: Sequence[Mapping[str, Any]],
        *,
        after: Mapping[str, Any],
        user: AbstractBaseUser | None,
        key: str | None,
    ) -> Any:
        """Write batch, items and audit entry together. The caller then advances it; nothing runs before that."""
        try:
            with transaction.atomic():
                batch = self.rows.objects.create(**fields, owner=user)
                self.items.objects.bulk_create(
                    self.items(**{self.name: batch}, place=place, **item) for place, item in enumerate(items, start=1)
                )
                action_on(verb=f"{self.name}.start", on=(self.name, batch.pk), user=user, key=key, after=dict(after))
                return batch
        except IntegrityError:  # two submits of one form at once: the first one won
            first = self.created(key)
            if first is None:
                raise
            return first

    def created(self, key: str | None) -> Any:
        """What was started under this key, or None."""
        action = action_done(key=key, verb=f"{self.name}.start")
        return None if action is None else self.rows.objects.get(pk=action.object_id)

    def pause(self, batch: Batch, *, user: AbstractBaseUser | None, key: str | None = None, why: str = "") -> Any:
        """Start nothing more and pause its running searches; steps in flight end. `why` is shown while it is paused."""
        with transaction.atomic():
            locked = self._open(batch)
            if action_done(key=key, verb=f"{self.name}.pause") or locked.state == Batch.State.PAUSED:
                return locked
            running = self.searches(locked).filter(state=Run.State.RUNNING)
            paused = each(running, lambda run: run_pause(run=run, user=user))
            locked.stop_reason = clip(why, 200)
            return self._set(locked, Batch.State.PAUSED, "pause", paused, user, key)

    def halt(self, batch: Batch, why: str) -> list[FollowUp]:
        """Pause it because of a fault and say why, unless it has ended meanwhile."""
        with suppress(ActionRefused):
            self.pause(batch, user=None, why=why)
        return []

    def resume(self, batch: Batch, *, user: AbstractBaseUser | None, key: str | None = None) -> Any:
        """Go on, with the searches that its last pause had paused. The caller sends `follow_ups(batch)` and
        advances it."""
        with transaction.atomic():
            locked = self._open(batch)
            if action_done(key=key, verb=f"{self.name}.resume") or locked.state == Batch.State.RUNNING:
                return locked
            if locked.device.state == Device.State.QUARANTINED:
                text = gettext("Device %(device)s is quarantined. Activate it before you resume.")
                page = gettext("Open the device"), reverse("device-detail", args=[locked.device_id])
                raise ActionRefused(text % {"device": locked.device.name}, see=page)
            paused = self.searches(locked).filter(state=Run.State.PAUSED, pk__in=self.last_paused(locked.pk))
            resumed = each(paused, lambda run: run_resume(run=run, user=user))
            locked.stop_reason = ""
            locked.entries.filter(state=BatchItem.State.WAITING).update(asked_at=None)  # a paused one is not examined
            return self._set(locked, Batch.State.RUNNING, "resume", resumed, user, key)

    def stop(self, batch: Batch, *, user: AbstractBaseUser | None, key: str | None = None) -> Any:
        """End it: stop its searches, start no others. A kernel on the device is judged to its end."""
        with transaction.atomic():
            locked = self._found(batch)
            if action_done(key=key, verb=f"{self.name}.stop") or locked.state == Batch.State.STOPPED:
                return locked
            self._open(locked)
            open_searches = self.searches(locked).exclude(state__in=Run.ENDED)
            stopped = each(open_searches, lambda run: run_stop(run=run, user=user))
            waiting = locked.entries.filter(state=BatchItem.State.WAITING)
            waiting.update(state=BatchItem.State.SKIPPED, reason=f"The {self.noun} was stopped.")
            locked.ended_at = timezone.now()
            locked.stop_reason = f"Stopped by {user.get_username()}." if user else "Stopped."
            return self._set(locked, Batch.State.STOPPED, "stop", stopped, user, key)

    def last_paused(self, batch_id: int) -> list[int]:
        """Ids of the searches that its last pause had paused."""
        pauses = AuditEntry.objects.filter(object_type=self.name, object_id=str(batch_id), verb=f"{self.name}.pause")
        last = pauses.order_by("-id").first()
        return list(last.after.get("runs", ())) if last else []

    def _found(self, batch: Batch) -> Any:
        locked = self.locked(batch.pk)
        if locked is None:
            raise ActionRefused(gettext("This %(noun)s no longer exists.") % {"noun": self.noun})
        return locked

    def _open(self, batch: Batch) -> Any:
        locked = self._found(batch)
        if locked.ended:
            text = gettext("This %(noun)s has already ended (%(state)s).")
            raise ActionRefused(text % {"noun": self.noun, "state": locked.state})
        return locked

    def _set(
        self, batch: Any, state: Batch.State, verb: str, runs: list[int], user: AbstractBaseUser | None, key: str | None
    ) -> Any:
        before, batch.state = batch.state, state
        batch.save(update_fields=["state", "stop_reason", "ended_at"])
        action_on(
            verb=f"{self.name}.{verb}",
            on=(self.name, batch.pk),
            user=user,
            key=key,
            before={"state": before},
            after={"state": state.value, "runs": runs},
        )
        return batch

    # Advance

    def advance_all(self, *, now: datetime | None = None) -> list[FollowUp]:
        """Advance every running batch that no command drives."""
        now = now or timezone.now()
        running = self.rows.objects.filter(state=Batch.State.RUNNING).exclude(lease_until__gt=now)
        ids = list(running.order_by("pk").values_list("pk", flat=True))
        return [follow_up for pk in ids for follow_up in self.advance(pk, now=now)]

    def follow(self, node_id: int, *, now: datetime | None = None) -> list[FollowUp]:
        """Advance the batch whose search has ended with this node, if any."""
        now = now or timezone.now()
        ended = Q()
        for arm in self.items.ARMS:
            ended |= Q(**{f"{arm}__nodes": node_id, f"{arm}__state__in": Run.ENDED})
        found = self.items.objects.filter(ended, **{f"{self.name}__state": Batch.State.RUNNING})
        found = found.exclude(**{f"{self.name}__lease_until__gt": now})
        batch_id = found.values_list(self.name, flat=True).first()
        return [] if batch_id is None else self.advance(batch_id, now=now)

    def advance(self, batch_id: int, *, now: datetime | None = None, settled: bool = False) -> list[FollowUp]:
        """Start what can start and ask for what is missing before it; end the batch when nothing is left."""
        with transaction.atomic():
            batch = self.locked(batch_id)
            if batch is None or batch.state != Batch.State.RUNNING:
                return []
            items = batch.entries.select_related("problem", *self.items.ARMS).defer(*self.unread).order_by("place")
            return self.fill(batch, list(items), now or timezone.now(), settled=settled)

    def finish(self, batch: Batch, now: datetime, reason: str = "") -> None:
        """Nothing is left to do."""
        batch.state, batch.ended_at, batch.stop_reason = Batch.State.FINISHED, now, clip(reason, 200)
        batch.save(update_fields=["state", "ended_at", "stop_reason"])

    def ask(
        self,
        follow_up: FollowUp,
        item: BatchItem,
        now: datetime,
        *,
        again: bool = False,
        patience_s: float = ASK_AGAIN_S,
    ) -> list[FollowUp]:
        """Ask for an item's task, unless that was done within `patience_s`."""
        if item.asked_at is not None and not again and item.asked_at > now - timedelta(seconds=patience_s):
            return []
        self.items.objects.filter(pk=item.pk).update(asked_at=now)
        return [follow_up]

    def search_of(self, batch: Any, problem: Problem, seeds: str = "spread") -> dict[str, Any]:
        """What `run_start` gets for every search of the batch."""
        return {
            "problem": problem,
            "device": batch.device,
            "proposer": batch.proposer,
            "seed": seed_for(batch.seed, seeds, problem.source_hash),
            "params": batch.params,
            "options": batch.proposer_options,
            "user": batch.owner,
            "concurrency": batch.concurrency,
        }

    # Preflights

    def admit(
        self,
        item_id: int,
        *,
        bench_for: Callable[[Device], Bench],
        clock: Callable[[], datetime] = timezone.now,
        settled: bool = False,
        since: datetime | None = None,
    ) -> list[FollowUp]:
        """Preflight a waiting item's problem on the batch's device, then go on. A decided one is not run again.

        One that another process does is left to it, unless it began before `since`: then that process is gone.
        """
        item = self.wanted(item_id)
        if item is None or item.problem is None:
            return []
        batch = getattr(item, self.name)
        check = preflight(item.problem, batch.device, now=clock())
        if not (check.decided or check.barred) and (
            check.state != "running" or check.stalled or check.left_behind(since)
        ):
            self.examine(item, bench_for, clock)
        self.examined(item, preflight(item.problem, batch.device, now=clock()))
        return self.advance(batch.pk, now=clock(), settled=settled)

    def wanted(self, item_id: int) -> Any:
        """The item with its batch, while it waits and the batch runs; else None."""
        batch = {f"{self.name}__state": Batch.State.RUNNING}
        waiting = self.items.objects.filter(pk=item_id, state=BatchItem.State.WAITING, **batch)
        return waiting.select_related(f"{self.name}__device", "problem").first()

    def examine(self, item: Any, bench_for: Callable[[Device], Bench], clock: Callable[[], datetime]) -> None:
        """Run the preflight; refuse the item when the judge cannot do it, or a person stops it. On a device of another
        machine it waits to be exported, and its report lets the item go on."""
        device = getattr(item, self.name).device
        if device.remote:
            if not preflight(item.problem, device, now=clock()).unfinished:
                admission_queue(problem=item.problem, device=device)
            return
        try:
            problem_admit(problem=item.problem, device=device, bench=bench_for(device))
        except JudgeError:
            self.refuse(item, preflight(item.problem, device, now=clock()).why_not)
        except Stopped:
            item.problem.refresh_from_db(fields=["admission"])
            check = preflight(item.problem, device, now=clock())
            if check.state == STOPPED:  # else another process has begun the same
                self.refuse(item, check.why_not)

    def examined(self, item: Any, check: Preflight) -> None:  # noqa: B027
        """Called after a preflight, decided or not."""

    def refuse(self, item: BatchItem, reason: str) -> None:
        """Close a waiting item, unless another process was faster."""
        waiting = self.items.objects.filter(pk=item.pk, state=BatchItem.State.WAITING)
        waiting.update(state=BatchItem.State.REFUSED, reason=reason)

    # Drive

    def drive(self, batch: Any, tools: Tools) -> Any:
        """Work in this process, without queue or workers. Searches run one after the other, whatever `at_once` allows.

        Returns when the batch has ended or is paused, its device is away, or all that is left waits for a person.
        """
        asked: deque[FollowUp] = deque()
        tried: set[int] = set()
        begun = timezone.now()
        batch.entries.filter(state=BatchItem.State.WAITING).update(asked_at=None)
        try:
            while True:
                self._hold(batch)
                self.settle(batch, tools, tried)
                asked.extend(self._own(self.advance(batch.pk, settled=True)))
                batch.refresh_from_db()
                if batch.state != Batch.State.RUNNING or batch.device.state != Device.State.ACTIVE:
                    return batch
                driven = self.searches(batch).filter(state__in=(Run.State.RUNNING, Run.State.STOPPING))
                run = driven.select_related("device", "problem").order_by("pk").first()
                if asked and (run is None or self.items_first):
                    asked.extend(self._own(self._do(batch, asked.popleft(), tools, begun)))
                elif run is not None:
                    self.drive_search(batch, run, tools)
                elif self._waits(batch):
                    return batch
                else:
                    tools.sleep(LOOK_AGAIN_S)  # another process or machine does it
                    tools.elsewhere()
        finally:
            self.rows.objects.filter(pk=batch.pk).update(lease_until=None)

    def settle(self, batch: Any, tools: Tools, tried: set[int]) -> None:  # noqa: B027
        """Called before each round of a driver; `tried` keeps what was tried before."""

    def drive_search(self, batch: Batch, run: Run, tools: Tools, first: Iterable[FollowUp] = ()) -> None:
        """Drive one search; `first` is done before it."""

        def report() -> None:
            self._hold(batch)
            tools.report(run)

        drive(
            run=run,
            proposer_for=tools.proposer_for,
            bench_for=tools.bench_for,
            sleep=tools.sleep,
            report=report,
            first=first,
            elsewhere=tools.elsewhere,
        )

    def do(self, follow_up: FollowUp, tools: Tools, begun: datetime) -> list[FollowUp]:
        """Do an item's follow-up task here."""
        return self.admit(follow_up.target, bench_for=tools.bench_for, settled=True, since=begun)

    def _do(self, batch: Batch, follow_up: FollowUp, tools: Tools, begun: datetime) -> list[FollowUp]:
        admits = follow_up.task.startswith("admit_")
        items = self.items.objects.select_related("problem", *self.items.ARMS)
        if admits:
            tools.admitting(items.get(pk=follow_up.target))
        self._hold(batch)
        follow_ups = self.do(follow_up, tools, begun)
        item = items.filter(pk=follow_up.target).first()
        if item is not None and (admits or item.state == BatchItem.State.REFUSED):
            tools.decided(item)
        return follow_ups

    def _own(self, follow_ups: Iterable[FollowUp]) -> list[FollowUp]:
        """Without the searches' own: those are found in the rows."""
        return [follow_up for follow_up in follow_ups if follow_up.task in self.tasks]

    def _hold(self, batch: Batch) -> None:
        self.rows.objects.filter(pk=batch.pk).renew(now=timezone.now(), for_s=LEASE_S)

    def _waits(self, batch: Any) -> bool:
        """Whether paused searches are all that is left, or hold every place."""
        paused = Q()
        for arm in self.items.ARMS:
            paused |= Q(**{f"{arm}__state": Run.State.PAUSED})
        waiting = batch.entries.filter(state=BatchItem.State.WAITING)
        return batch.entries.filter(paused).count() >= batch.at_once or not waiting.exists()


SOURCES: dict[str, Source] = {}  # by their name in entries of the audit log on the budget of all searches


def each(rows: QuerySet[Any], change: Callable[[Any], object]) -> list[int]:
    """Ids of those that could be changed, in their order: one that ends meanwhile stops nothing."""
    done = []
    for row in rows.order_by("pk"):
        with suppress(ActionRefused):
            change(row)
            done.append(row.pk)
    return done


@dataclass(frozen=True)
class Plan:
    """What every batch is started with. `options` None: those that suit the proposer; `seed` None: a random one."""

    device: Device
    proposer: str = "builtin"
    title: str = ""
    seed: int | None = None
    at_once: int = 1
    concurrency: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] | None = None
    memory: MemoryChoice = field(default_factory=MemoryChoice)

    def fields(self, title: str, *ranges: tuple[str, int, int, int]) -> dict[str, Any]:
        """Columns of the batch. Raises ActionRefused with the first thing that stands against starting.

        `ranges` are (what, value, least, most) of the kind's own numbers.
        """
        for what, value, least, most in (*ranges, (gettext("Steps in flight"), self.concurrency, 1, MAX_CONCURRENCY)):
            if not least <= value <= most:
                text = gettext("%(what)s must be from %(least)d to %(most)d, not %(value)d.")
                raise ActionRefused(text % {"what": what, "least": least, "most": most, "value": value})
        if self.seed is not None and not 0 <= self.seed < 1 << 63:
            text = gettext("The seed must be from 0 to %(most)d, not %(seed)d.")
            raise ActionRefused(text % {"most": (1 << 63) - 1, "seed": self.seed})
        device = self.device
        if not device.takes_searches:
            text = gettext("Device %(device)s takes no new searches. Choose another device.")
            raise ActionRefused(text % {"device": device.name})
        _check_proposer(self.proposer, self.options or {})
        try:
            params = SearchParams.from_json(self.params)
        except ValueError as error:
            raise ActionRefused(str(error)) from error
        return {
            "title": clip(self.title, 160) or f"{title} on {device.name}",
            "device": device,
            "proposer": self.proposer,
            "proposer_options": dict(self.options or {}),
            "params": params.to_json(),
            "seed": secrets.randbelow(1 << 31) if self.seed is None else self.seed,
            "at_once": self.at_once,
            "concurrency": self.concurrency,
            "memory": self.memory.to_json(),
        }


def _check_proposer(name: str, options: Mapping[str, Any]) -> None:
    """Raises ActionRefused for one that cannot work unattended, or not yet, and for options it does not have."""
    dialect_check(name, options)
    choices = {choice.name: choice for choice in available()}
    if name in ATTENDED:
        text = gettext("The proposer %(name)r cannot serve many searches at once. Choose builtin or a model.")
        raise ActionRefused(text % {"name": name})
    if name not in choices:
        text = gettext("There is no proposer %(name)r. Choose one of: %(choices)s.")
        raise ActionRefused(text % {"name": name, "choices": ", ".join(choices)})
    if choices[name].why_not:
        raise ActionRefused(choices[name].why_not)


def seed_for(seed: int, seeds: str, problem_hash: str) -> int:
    """The seed of one search: the batch's own (`seeds` same), or one made from it and the problem's text."""
    if seeds == "same":
        return seed
    return int(hashlib.sha256(f"{seed}:{problem_hash}".encode()).hexdigest()[:7], 16)
