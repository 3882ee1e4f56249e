"""What goes with an imported search when it is removed, what stays, and what stands against it. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from judge.evaluations.models import PROTOCOL_ELSEWHERE, Evaluation
from memory.rules.models import Rule, Sighting
from search.records.models import Run

LIVING = (Rule.State.PROPOSED, Rule.State.APPROVED)
MOST_NAMED = 10


_COUNTS: Mapping[str, Callable[[int], str]] = {
    "nodes": lambda count: ngettext("%(count)d node", "%(count)d nodes", count),
    "verdicts": lambda count: ngettext("%(count)d verdict", "%(count)d verdicts", count),
    "failures": lambda count: ngettext("%(count)d failure", "%(count)d failures", count),
    "sightings": lambda count: ngettext(
        "%(count)d sighting of rules no longer in force", "%(count)d sightings of rules no longer in force", count
    ),
}


def _counted(name: str, count: int) -> str:
    return _COUNTS[name](count) % {"count": count}


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
        return {name: getattr(self, name) for name in _COUNTS}

    @property
    def text(self) -> str:
        """What goes along, in sentences."""
        counted = {name: _counted(name, count) for name, count in self.counts.items()}
        text = _("This deletes %(nodes)s with their kernels and prompts, %(verdicts)s of the source, and the events.")
        if self.failures:
            text = _(
                "This deletes %(nodes)s with their kernels and prompts, %(verdicts)s of the source, the events, and "
                "%(failures)s in Failures."
            )
        more = ngettext(
            "%(count)d sighting of rejected, retired or merged rules is deleted too.",
            "%(count)d sightings of rejected, retired or merged rules are deleted too.",
            self.sightings,
        )
        return text % counted + (f" {more % {'count': self.sightings}}" if self.sightings else "")


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
        yield _("Only imported searches can be removed: a search made here could not be restored.")
        return
    branches = list(Run.objects.filter(branched_from__run=run).order_by("pk").values_list("pk", flat=True))
    if branches:
        yield ngettext(
            "Search %(numbers)s started from a kernel of this search, which must be kept as its source.",
            "Searches %(numbers)s started from a kernel of this search, which must be kept as its source.",
            len(branches),
        ) % {"numbers": _listed(branches)}
    rules = Rule.objects.filter(sightings__failure__run=run, state__in=LIVING).distinct().order_by("pk")
    if found := list(rules.values_list("pk", flat=True)):
        yield ngettext(
            "Rule %(numbers)s would lose its failures as evidence. Reject or retire rules that should not be kept "
            "without it, then remove the search.",
            "Rules %(numbers)s would lose its failures as evidence. Reject or retire rules that should not be kept "
            "without it, then remove the search.",
            len(found),
        ) % {"numbers": _listed(found)}


def _listed(numbers: list[int]) -> str:
    """`3, 5 and 12 more`."""
    shown, more = ", ".join(map(str, numbers[:MOST_NAMED])), len(numbers) - MOST_NAMED
    return _("%(numbers)s and %(count)d more") % {"numbers": shown, "count": more} if more > 0 else shown


def removal_text(gone: Mapping[str, Any]) -> str:
    """What went with a removed search, by the `before` of its entry in the audit log."""
    counts = [_counted(name, gone.get(name, 0)) for name in _COUNTS if name != "sightings" or gone.get(name)]
    names = {name: gone.get(name, "") for name in ("title", "file")}
    return _("%(title)s, file %(file)s: %(counts)s") % {**names, "counts": ", ".join(counts)}
