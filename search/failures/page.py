"""What the pages of failures need beside the rows of memory: attempts, choices of the filter, nodes and acts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from adaexplore_site.actions import registry
from adaexplore_site.core.models import AuditEntry
from judge.problems.models import Problem
from memory.clusters.actions import KIND, ClusterEntries
from memory.clusters.proposing import fit_failures, suggested, why_unfit
from memory.clusters.queries import Chosen, cluster_row, members
from memory.failures.models import Failure, FailureCluster
from memory.patterns.messages import cause_of
from memory.patterns.table import BY_CODE
from search.records.models import Node, Run

MOST_NODES = 30
MOST_EXAMPLES = 5
MOST_CHOICES = 100
MOST_ACTS = 50


@dataclass(frozen=True)
class Act:
    """One act in words; `undo` is its row id while it can be undone."""

    at: datetime
    who: str
    text: str
    undo: int | None


def attempts_of(chosen: Chosen) -> int:
    """Told nodes, roots left out, of the searches and problem chosen."""
    nodes = Node.objects.filter(state=Node.State.COMPLETED).exclude(kind=Node.Kind.ROOT)
    if chosen.run is not None:
        nodes = nodes.filter(run_id=chosen.run)
    if chosen.problem is not None:
        nodes = nodes.filter(run__problem_id=chosen.problem)
    return nodes.count()


def choices_of(chosen: Chosen, run: Run | None) -> dict[str, Any]:
    """Stages, and over all searches also the searches and problems, that have failures."""
    mine = Failure.objects.filter(run_id=run.pk) if run is not None else Failure.objects.all()
    stages = list(mine.order_by("stage").values_list("stage", flat=True).distinct())
    if run is not None:
        return {"stages": stages}
    runs = list(Failure.objects.order_by("-run_id").values_list("run_id", flat=True).distinct()[:MOST_CHOICES])
    problems = list(Failure.objects.order_by("problem_id").values_list("problem_id", flat=True).distinct())
    return {
        "stages": stages,
        "runs": Run.objects.filter(pk__in=[*runs, chosen.run]).select_related("problem").order_by("-pk"),
        "problems": Problem.objects.filter(pk__in=problems[:MOST_CHOICES]).only("pk", "title").order_by("title"),
    }


def cluster_context(cluster: FailureCluster, *, key: Callable[[], str]) -> dict[str, Any]:
    """Template context of a cluster's page. `key` makes a fresh key for each form."""
    family = members(cluster)
    failures = Failure.objects.filter(cluster_id__in=family).select_related("node", "run__problem")
    newest = list(failures.defer("node__source", "node__sketch").order_by("-pk")[:MOST_NODES])
    fit = fit_failures(cluster)
    lesson = suggested(fit)
    parts = FailureCluster.objects.filter(merged_into=cluster).order_by("key")
    return {
        "cluster": cluster,
        "row": cluster_row(cluster),
        "known": BY_CODE.get(cluster.pattern),
        "newest": [(failure, cause_of(failure.message)) for failure in newest],
        "examples": _examples(newest),
        "fit": len(fit),
        "why_unfit": "" if fit else why_unfit(cluster),
        "lesson": lesson,
        "parts": [(part, key()) for part in parts],
        "acts": [(act, key()) for act in _acts(family)],
        "keys": {name: key() for name in ("assign", "mute", "merge", "split", "propose")},
        "others": FailureCluster.objects.filter(merged_into=None).exclude(pk=cluster.pk).order_by("text", "key")[:200],
    }


def _examples(failures: list[Failure]) -> list[Failure]:
    """The newest failure of each wording."""
    seen: dict[str, Failure] = {}
    for failure in failures:
        seen.setdefault(failure.message, failure)
    return list(seen.values())[:MOST_EXAMPLES]


def _acts(family: list[int]) -> list[Act]:
    ids = [str(pk) for pk in family]
    entries = AuditEntry.objects.filter(object_type=KIND.name, object_id__in=ids).select_related("actor")
    rows = list(entries[:MOST_ACTS])
    loaded = KIND.load(rows)
    return [_act(row, loaded, own=family[0]) for row in rows]


def _act(row: AuditEntry, loaded: ClusterEntries, own: int) -> Act:
    verb = registry.verb(row.verb)
    words = verb.describe(row, loaded) if verb is not None else row.verb
    standing = verb is not None and bool(verb.standing(row, loaded).label)
    return Act(
        at=row.created_at,
        who=row.actor.get_username() if row.actor else "a command",
        text=words if int(row.object_id) == own else f"{loaded.title(int(row.object_id))}: {words}",
        undo=row.pk if standing else None,
    )
