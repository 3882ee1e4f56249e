"""The life of a problem after its upload: next versions, archive, deletion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from adaexplore_site.core.audit import ActionRefused, action_on
from judge.problems.admission import admission_stalled
from judge.problems.models import Problem
from judge.problems.services import free_slug, text_fields
from judge.sources.checks import check_problem
from judge.values import Policy, ProblemSpec

UNFINISHED = ("queued", "running")


def lineage_locked(problem: Problem) -> list[Problem]:
    """Every version, the newest first; nobody adds, archives or deletes one until the caller's transaction ends.

    Raises ActionRefused where somebody has deleted the problem meanwhile.
    """
    Problem.objects.select_for_update().only("pk").filter(pk=problem.original_id or problem.pk).first()
    versions = list(problem.versions.select_for_update())
    if problem not in versions:
        raise ActionRefused(_("This problem no longer exists."))
    return versions


def version_add(*, problem: Problem, data: bytes, user: Any = None, key: str | None = None) -> Problem:
    """Store a text as the next version. Its title, policy and level are those of the version before.

    Raises ProblemRejected with the line and what to change, ActionRefused for a text that is stored already.
    """
    facts = check_problem(data, max_bytes=settings.MAX_PROBLEM_BYTES)
    with transaction.atomic():
        before = lineage_locked(problem)[0]
        if before.archived_at is not None:
            raise ActionRefused(_("This problem is archived. Unarchive it first."))
        spec = ProblemSpec(facts.text, policy=Policy.from_json(before.policy))
        known = Problem.objects.filter(source_hash=spec.hash).first()
        if known is not None:
            raise ActionRefused(_known_already(before, known), see=(known.title, f"/problems/{known.slug}/"))
        first = before.original or before
        row = Problem(
            **text_fields(facts),
            title=before.title,
            source_hash=spec.hash,
            policy=before.policy,
            level=before.level,
            origin=Problem.Origin.UPLOAD,
            created_by=user,
            original=first,
            version=before.version + 1,
        )
        row.family = row.family or before.family
        row.slug = free_slug(f"{slugify(first.slug)[:66]}-v{row.version}")
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError as error:  # an upload stored the same text or took the name meanwhile
            raise ActionRefused(_("Somebody has just uploaded a text like this one. Try again.")) from error
        Problem.objects.filter(pk=before.pk).update(superseded=True)
        after = {"slug": row.slug, "title": row.title, "version": row.version, "of": before.slug}
        action_on(verb="problem.version", on=("problem", row.pk), user=user, key=key, after=after)
    return row


def _known_already(before: Problem, known: Problem) -> str:
    if (known.original_id or known.pk) == (before.original_id or before.pk):
        return _("This text is version %(version)d of this problem already.") % {"version": known.version}
    return _("This text is stored as the problem “%(title)s” already.") % {"title": known.title}


def problem_archive(*, problem: Problem, archived: bool, user: Any = None, key: str | None = None) -> bool:
    """Take all versions of a problem out of lists and start forms, or put them back. Whether anything changed."""
    with transaction.atomic():
        newest = lineage_locked(problem)[0]
        if (newest.archived_at is not None) == archived:
            return False
        problem.versions.update(archived_at=timezone.now() if archived else None)
        was, now = {"archived": not archived}, {"archived": archived}
        verb = "problem.archive" if archived else "problem.unarchive"
        action_on(verb=verb, on=("problem", problem.pk), user=user, key=key, before=was, after=now)
    return True


@dataclass(frozen=True)
class Deletion:
    """What deleting a problem amounts to. `why_not` holds a sentence for each thing against it."""

    verdicts: int
    jobs: int  # that left as files
    why_not: tuple[str, ...]

    @property
    def text(self) -> str:
        """What goes along, in sentences."""
        text = _("This deletes its text, preflight reports and sealed cases.")
        if self.verdicts:
            text += " " + ngettext(
                "%(count)d verdict with its kernel and measurements is deleted too.",
                "%(count)d verdicts with their kernels and measurements are deleted too.",
                self.verdicts,
            ) % {"count": self.verdicts}
        if self.jobs:
            text += " " + ngettext(
                "The outcome of %(count)d exported job can no longer be imported.",
                "The outcomes of %(count)d exported jobs can no longer be imported.",
                self.jobs,
            ) % {"count": self.jobs}
        return text


def deletion_of(problem: Problem, now: datetime) -> Deletion:
    """As of now. Exact while its versions are locked."""
    return Deletion(
        verdicts=problem.evaluations.count(),
        jobs=problem.batch_jobs.filter(evaluation=None).count(),
        why_not=tuple(_against(problem, now)),
    )


def _against(problem: Problem, now: datetime) -> Iterable[str]:
    if problem.superseded:
        yield _("A newer version replaces this one. Delete that one first.")
    if searches := problem.runs.count():
        yield ngettext(
            "%(count)d search uses this problem. Archive the problem instead: its searches and kernels are kept.",
            "%(count)d searches use this problem. Archive the problem instead: its searches and kernels are kept.",
            searches,
        ) % {"count": searches}
    elif problem.campaign_entries.exists() or problem.adapt_tasks.exists():
        yield _("A campaign or an adapt run names this problem. Archive the problem instead.")
    entries = [entry for entry in problem.admission.values() if isinstance(entry, dict)]
    if any(entry.get("state") in UNFINISHED and not admission_stalled(entry, now=now) for entry in entries):
        yield _("A preflight of this problem is not finished. Wait for its end.")


def problem_delete(*, problem: Problem, verb: str = "problem.delete", user: Any = None, key: str | None = None) -> None:
    """Delete a problem that no search uses, with what `deletion_of` names. Raises ActionRefused."""
    with transaction.atomic():
        versions = lineage_locked(problem)
        row = next(version for version in versions if version.pk == problem.pk)
        found = deletion_of(row, timezone.now())
        if found.why_not:
            raise ActionRefused(" ".join(found.why_not))
        gone = {name: getattr(row, name) for name in ("slug", "title", "version", "source_hash")}
        gone |= {"verdicts": found.verdicts, "jobs": found.jobs}
        action_on(verb=verb, on=("problem", row.pk), user=user, key=key, before=gone)
        row.batch_jobs.all().delete()
        row.evaluations.all().delete()  # with their measurements and races
        row.delete()
        Problem.objects.filter(pk__in=[version.pk for version in versions[1:2]]).update(superseded=False)
