"""Searches in the audit log: how an entry is written, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import Kind, Recorded, Standing, Subject
from adaexplore_site.core.audit import action_on
from adaexplore_site.core.models import AuditEntry
from search.records.models import Node, Run

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


T = TypeVar("T")


@dataclass(frozen=True)
class RunEntries:
    """Entries of the audit log on searches, with the searches that are still there."""

    entries: Sequence[AuditEntry]
    runs: Mapping[int, Run]
    _found: dict[str, Any] = field(default_factory=dict)

    def run(self, entry: AuditEntry) -> Run | None:
        """The search of an entry; None when it was removed."""
        return self.runs.get(int(entry.object_id))

    def once(self, name: str, find: Callable[[RunEntries], T]) -> T:
        """What a room finds out about all entries together, read when it is first needed."""
        if name not in self._found:
            self._found[name] = find(self)
        found: T = self._found[name]
        return found


class RunKind(Kind):
    name = "run"
    noun = "search"
    aliases = ("run",)

    def objects(self) -> QuerySet[Run]:
        return Run.objects.select_related("problem", "device")

    def load(self, entries: Sequence[AuditEntry]) -> RunEntries:
        rows = self.objects().filter(pk__in={entry.object_id for entry in entries})
        return RunEntries(entries, {run.pk: run for run in rows})

    def subject(self, entry: AuditEntry, loaded: RunEntries) -> Subject:
        run = loaded.run(entry)
        if run is None:
            title = f"{entry.before.get('title', '')} #{entry.object_id}".strip()
            return Subject("search", title, reverse("run-activity", args=[entry.object_id]))
        return Subject("search", f"{run.title or run.problem.title} #{run.pk}", reverse("run-detail", args=[run.pk]))

    def lock(self, target: Run | Node) -> Run:
        """The search's row, also for what is done to one of its nodes."""
        return Run.objects.select_for_update(of=("self",)).get(pk=_id(target))

    def version(self, target: Run | Node) -> int:
        """The number of its last event."""
        run = target if isinstance(target, Run) else target.run
        return run.event_seq

    def now(self, target: Run | Node) -> dict[str, Any]:
        found = Run.objects.filter(pk=_id(target)).values("state", "event_seq").first()
        return dict(found or {})


def _id(target: Run | Node) -> int:
    return target.pk if isinstance(target, Run) else target.run_id


RUN = RunKind()


def action_record(
    *,
    verb: str,
    run: Run,
    user: AbstractBaseUser | None,
    key: str | None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditEntry:
    """Write the audit row of an action on a run, in the caller's transaction."""
    return action_on(verb=verb, on=("run", run.pk), user=user, key=key, before=before, after=after)


GONE = Standing(why_not=_("the search no longer exists"))
ENDED = Standing(why_not=_("the search has ended"))


class RunVerb(Recorded):
    """A verb of the audit log of searches. `says` stands after "Node 7", or by itself where it is about no node."""

    kind = RUN

    def says(self, after: Mapping[str, Any]) -> str:
        """What was done, as the audit log or the event tells it."""
        return str(self.done)

    def describe(self, entry: AuditEntry, loaded: RunEntries) -> str:
        number, text = entry.after.get("number"), self.says(entry.after)
        return text if number is None else gettext("Node %(number)s %(done)s") % {"number": number, "done": text}

    def detail(self, entry: AuditEntry, loaded: RunEntries) -> str:
        """The sentence says all of it."""
        return ""
