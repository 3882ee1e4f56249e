"""What goes with an imported search when it is removed, what stays, and what stands against it. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import counted
from judge.evaluations.models import PROTOCOL_ELSEWHERE, Evaluation
from memory.rules.models import Rule, Sighting
from search.records.models import Run

VERB = "run.remove"
LIVING = (Rule.State.PROPOSED, Rule.State.APPROVED)
MOST_NAMED = 10


@dataclass(frozen=True)
class Removal:
    """What removing a search amounts to. `why_not` holds a sentence for each thing against it."""

    nodes: int
    verdicts: int
    failures: int
    sightings: int  # of rules that were rejected, retired or merged: they go along
    why_not: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("nodes", "verdicts", "failures", "sightings")}


def removal_of(run: Run) -> Removal:
    """As of now. Exact while the run's row and memory's rules are locked."""
    sightings = Sighting.objects.filter(failure__run=run)
    return Removal(
        nodes=run.nodes.exclude(kind="root").count(),
        verdicts=Evaluation.objects.filter(nodes__run=run, protocol=PROTOCOL_ELSEWHERE).distinct().count(),
        failures=run.failures.count(),
        sightings=sightings.exclude(rule__state__in=LIVING).count(),
        why_not=tuple(_against(run)),
    )


def _against(run: Run) -> Iterable[str]:
    if run.origin != Run.Origin.IMPORT:
        yield "Only imported searches can be removed: a search made here could not be restored."
        return
    branches = list(Run.objects.filter(branched_from__run=run).order_by("pk").values_list("pk", flat=True))
    if branches:
        yield (
            f"{_named('Search', 'Searches', branches)} started from a kernel of this search, which must be kept as "
            "its source."
        )
    rules = Rule.objects.filter(sightings__failure__run=run, state__in=LIVING).distinct().order_by("pk")
    if found := list(rules.values_list("pk", flat=True)):
        yield (
            f"{_named('Rule', 'Rules', found)} would lose its failures as evidence. Reject or retire rules that should "
            "not be kept without it, then remove the search."
        )


def _named(one: str, many: str, numbers: list[int]) -> str:
    """`Rules 3, 5 and 12 more`."""
    if len(numbers) == 1:
        return f"{one} {numbers[0]}"
    shown = ", ".join(map(str, numbers[:MOST_NAMED]))
    return f"{many} {shown}" + (f" and {len(numbers) - MOST_NAMED} more" if len(numbers) > MOST_NAMED else "")


def removal_text(gone: Mapping[str, Any]) -> str:
    """What went with a removed search, by the `before` of its entry in the audit log."""
    counts = [counted(gone.get(name, 0), name.removesuffix("s")) for name in ("nodes", "verdicts", "failures")]
    if gone.get("sightings"):
        counts.append(f"{counted(gone['sightings'], 'sighting')} of rules no longer in force")
    return f"{gone.get('title', '')}, file {gone.get('file', '')}: {', '.join(counts)}"


def removed(run_id: int) -> AuditEntry | None:
    """The act that removed the search of this number; None when it is there, or never was."""
    return _removals().filter(object_id=str(run_id)).first()


def removed_lately(limit: int) -> list[AuditEntry]:
    """The newest removals."""
    return list(_removals()[:limit])


def _removals() -> QuerySet[AuditEntry]:
    return AuditEntry.objects.filter(verb=VERB, object_type="run").select_related("actor")
