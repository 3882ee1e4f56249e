"""The kind of object that a problem is for the activity log, and the problem of an address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Kind, Removed, Subject, missing
from adaexplore_site.core.models import AuditEntry
from judge.problems.admission import STOP
from judge.problems.models import Problem

Problems = Mapping[str, Problem]


class ProblemKind(Kind):
    name, noun = "problem", _("problem")

    def objects(self) -> QuerySet[Problem]:
        return Problem.objects.select_related("created_by", "original")

    def load(self, entries: Sequence[AuditEntry]) -> Problems:
        """With their preflights where an entry is about one."""
        names = ["title", "slug", "superseded", "archived_at", "quarantined_at"]
        names += ["admission"] if any(entry.verb == STOP for entry in entries) else []
        rows = Problem.objects.only(*names).in_bulk({int(entry.object_id) for entry in entries})
        return {str(pk): row for pk, row in rows.items()}

    def subject(self, entry: AuditEntry, loaded: Problems) -> Subject | None:
        row = loaded.get(entry.object_id)
        return None if row is None else Subject(self.noun, row.title, reverse("problem-detail", args=[row.slug]))


KIND = ProblemKind()


def problem_at(slug: str) -> Problem:
    """The problem of this address. Raises Removed where it was deleted, else Http404."""
    row = KIND.objects().filter(slug=slug).first()
    if row is not None:
        return row
    entry = registry.removals(KIND).filter(before__slug=slug).first()
    raise missing(KIND) if entry is None else Removed(KIND, entry)
