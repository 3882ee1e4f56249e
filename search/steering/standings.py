"""Whether actions on a search can be undone now: what decides it, read once for all entries of a page."""

from __future__ import annotations

from django.db.models import Max

from adaexplore_site.actions.action import REPLACED, UNDO, UNDONE, Standing
from adaexplore_site.core.models import AuditEntry
from search.algorithm.steering import BUDGET, INJECT, PARAMS, Act, Steering
from search.records.kinds import RunEntries
from search.records.log import steerings_of
from search.records.models import Node, Run
from search.steering.budget_undo import budgets_undone

GONE = Standing(why_not="the search is gone")
ENDED = Standing(why_not="the search has ended")
STOPPING = Standing(why_not="the search is stopping")


def steered(entry: AuditEntry, loaded: RunEntries) -> Standing:
    """How an action in the fold of a search's steering stands."""
    run = loaded.run(entry)
    if run is None:
        return GONE
    steering, seq = loaded.once("steering", _steerings)[run.pk], entry.after["seq"]
    act = steering.act(seq)
    if act is None:
        return UNDONE
    why_not = _why_not(seq, act, steering, loaded.once("waiting", _waiting)[run.pk])
    return Standing(why_not=why_not) if why_not else _while_it_runs(run)


def _why_not(seq: int, act: Act, steering: Steering, waiting: set[int]) -> str:
    """Why the action or batch `seq` cannot be undone any more; empty when it can be tried. `act` is the first of it."""
    if act.verb == INJECT:
        return "" if act.node in waiting else "judged"
    if act.verb in (BUDGET, PARAMS):
        return ""
    if steering.without(seq).effects != steering.effects:
        return ""
    return "used up" if steering.uses.get(act.seq) else "replaced"


def _while_it_runs(run: Run) -> Standing:
    if run.ended:
        return ENDED
    return STOPPING if run.state == Run.State.STOPPING else UNDO


def budget_added(entry: AuditEntry, loaded: RunEntries) -> Standing:
    """How an addition to the limits stands."""
    run = loaded.run(entry)
    if run is None:
        return GONE
    if entry.pk in loaded.once("budgets", lambda entries: budgets_undone(entries.runs.keys())):
        return UNDONE
    return ENDED if run.ended else UNDO


def concurrency_set(entry: AuditEntry, loaded: RunEntries) -> Standing:
    """How a change of the steps in flight stands: only the last one of a search can be undone."""
    run = loaded.run(entry)
    if run is None:
        return GONE
    if entry.pk not in loaded.once("concurrency", _last_concurrency):
        return REPLACED
    return ENDED if run.ended else UNDO


def branched(entry: AuditEntry, loaded: RunEntries) -> Standing:
    """How a branch stands: a new search is taken back by stopping it, while it has not ended."""
    if loaded.run(entry) is None:
        return GONE
    branch = entry.after["run"]
    if branch in loaded.once("branches", _live_branches):
        return Standing(f"Stop #{branch}")
    return Standing(why_not=f"search {branch} has ended")


def _steerings(loaded: RunEntries) -> dict[int, Steering]:
    return steerings_of(list(loaded.runs))


def _waiting(loaded: RunEntries) -> dict[int, set[int]]:
    """Kernels added by hand that wait for a verdict, by search."""
    waiting: dict[int, set[int]] = {pk: set() for pk in loaded.runs}
    nodes = Node.objects.filter(run__in=waiting, state__in=Node.IN_FLIGHT, touched=True).order_by()
    for run_id, number in nodes.values_list("run", "number"):
        waiting[run_id].add(number)
    return waiting


def _last_concurrency(loaded: RunEntries) -> set[int]:
    keys = [str(pk) for pk in loaded.runs]
    entries = AuditEntry.objects.filter(object_type="run", object_id__in=keys, verb="run.concurrency").order_by()
    return set(entries.values("object_id").annotate(last=Max("pk")).values_list("last", flat=True))


def _live_branches(loaded: RunEntries) -> set[int]:
    live = Run.objects.filter(branched_from__run__in=list(loaded.runs)).exclude(state__in=Run.ENDED)
    return set(live.values_list("pk", flat=True))
