"""Searches, problems, rules and kernels by name or number: a handful of each, for the palette and the find page."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext

from judge.evaluations.measures import Measure
from judge.evaluations.models import Evaluation
from judge.problems.models import OFFERED, Problem
from judge.sources.highlighting import visible
from memory.failures.models import FailureCluster
from memory.rules.models import Rule
from search.algorithm.ranking import Standing
from search.records.facts import standings_logged
from search.records.models import Node, Run

MOST = 20
SEARCHES, PROBLEMS, RULES, KERNELS, CLUSTERS = 6, 5, 4, 3, 2  # together MOST
_NUMBERS = re.compile(r"#?(\d{1,9})(?:[./](\d{1,6}))?$")


@dataclass(frozen=True)
class Found:
    """One thing with its address. Texts are made fit to be shown."""

    group: str
    label: str
    detail: str
    url: str
    measure: Measure | None = None  # the speedup that `detail` says in plain words, for the one tag that prints them


def found(q: str) -> list[Found]:
    """What fits `q`: words in titles, `12` or `#12` for a search, rule by number, `12/7` for node 7 of search 12."""
    words = q.strip()[:80]
    if not words:
        return []
    named = _NUMBERS.match(words)
    number, node = (int(named[1]), named[2]) if named else (None, None)
    runs = _runs(words, number)
    rows = [*_node(number, node), *map(_run, runs), *_problems(words), *_rules(words, number), *_kernels(runs)]
    return [*rows, *_clusters(words)][:MOST]


def _runs(words: str, number: int | None) -> list[Run]:
    named = Q(title__icontains=words) | Q(problem__title__icontains=words) | Q(problem__slug__icontains=words)
    runs = Run.objects.select_related("problem", "device").order_by("-pk")
    first = list(runs.filter(pk=number)) if number is not None else []
    rest = runs.filter(named).exclude(pk__in=[run.pk for run in first])
    return [*first, *rest[: SEARCHES - len(first)]]


def _run(run: Run) -> Found:
    return Found(
        gettext("Searches"),
        f"{_title(run)} #{run.pk}",
        gettext("%(state)s on %(device)s") % {"state": run.state, "device": run.device.name},
        reverse("run-detail", args=[run.pk]),
    )


def _title(run: Run) -> str:
    return visible(run.title or run.problem.title)


def _node(number: int | None, node: str | None) -> list[Found]:
    if number is None or node is None:
        return []
    rows = Node.objects.filter(run=number, number=int(node)).select_related("run__problem")
    where = reverse("node-detail", args=[number, int(node)])
    label = gettext("Node %(node)d of #%(search)d") % {"node": int(node), "search": number}
    return [Found(gettext("Kernels"), label, _title(row.run), where) for row in rows]


def _problems(words: str) -> list[Found]:
    rows = (
        Problem.objects.filter(OFFERED)
        .filter(Q(title__icontains=words) | Q(slug__icontains=words))
        .order_by("title", "pk")
    )
    return [
        Found(gettext("Problems"), visible(row.title), row.slug, reverse("problem-detail", args=[row.slug]))
        for row in rows.only("title", "slug")[:PROBLEMS]
    ]


def _rules(words: str, number: int | None) -> list[Found]:
    fits = Q(current__text__icontains=words) | (Q(pk=number) if number is not None else Q())
    rows = Rule.objects.filter(fits, current__isnull=False).select_related("current").order_by("-pk")
    return [
        Found(
            gettext("Rules"),
            visible(row.current.text)[:120],
            gettext("rule %(number)d, %(state)s") % {"number": row.pk, "state": row.state},
            reverse("rule-detail", args=[row.pk]),
        )
        for row in rows[:RULES]
        if row.current is not None
    ]


def _kernels(runs: list[Run]) -> list[Found]:
    """The best kernels of the searches that were found, else the closest ones, newest search first."""
    standings, logged = standings_logged([run.pk for run in runs])
    last = {
        run_id: best for run_id, bests in logged.items() for best in bests if best.number == standings[run_id].leader
    }
    kept = [(run, last[run.pk]) for run in runs if run.pk in last][:KERNELS]
    rows = Evaluation.objects.defer("source", "report").in_bulk([best.evaluation for _, best in kept])
    return [
        Found(
            gettext("Kernels"),
            _kernel_label(standings[run.pk]) % {"title": _title(run), "search": run.pk, "node": best.number},
            str(measure or ""),
            reverse("node-detail", args=[run.pk, best.number]),
            measure,
        )
        for run, best, measure in (
            (run, best, Measure.of(rows[best.evaluation])) for run, best in kept if best.evaluation in rows
        )
    ]


def _kernel_label(standing: Standing) -> str:
    if standing.best is None:
        return gettext("Closest to PyTorch of %(title)s #%(search)d: node %(node)d")
    return gettext("Best of %(title)s #%(search)d: node %(node)d")


def _clusters(words: str) -> list[Found]:
    rows = FailureCluster.objects.filter(text__icontains=words).order_by("-pk")[:CLUSTERS]
    return [
        Found(gettext("Failures"), visible(row.short_title), row.stage, reverse("failure-cluster", args=[row.key]))
        for row in rows
    ]
