"""What must hold of a run after a storm. Each check returns sentences; none means that all is well."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from django.core.management import call_command, get_commands
from django.core.management.base import CommandError
from django.db.models import Count

from judge.evaluations.models import Evaluation
from judge.values import UNCACHED
from search.ledger.books import ledger_of, limits_of
from search.ledger.limits import kept, limit_amounts, step_hold
from search.records.models import Node, Run, RunEvent
from tests.faults.replays import differences


def faults_of(run: Run) -> list[str]:
    """Everything that is wrong with an ended run."""
    found = [*_ended(run), *_events(run), *_steps(run), *_budget(run), *_replay(run)]
    return [f"run {run.pk}: {text}" for text in found]


def _ended(run: Run) -> Iterator[str]:
    if run.state != Run.State.FINISHED:
        yield f"ended as {run.state}: {run.stop_reason}"
    open_nodes = run.nodes.filter(state__in=Node.IN_FLIGHT).count()
    leases = run.nodes.exclude(lease_owner="", lease_until=None).count()
    if open_nodes or leases:
        yield f"{open_nodes} nodes in flight and {leases} leases after the end"


def _events(run: Run) -> Iterator[str]:
    seqs = list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    if seqs != list(range(1, run.event_seq + 1)):
        yield "the event log has gaps or doubles"
    for kind in ("node.reserved", "node.told"):
        numbers = list(RunEvent.objects.filter(run=run, kind=kind).values_list("payload__number", flat=True))
        if len(numbers) != len(set(numbers)):
            yield f"a node has two events {kind}"
    if RunEvent.objects.filter(run=run, kind="node.told").count() != _told(run):
        yield "told nodes and their events differ in number"


def _told(run: Run) -> int:
    return run.nodes.filter(state=Node.State.COMPLETED).exclude(kind=Node.Kind.ROOT).count()


def _steps(run: Run) -> Iterator[str]:
    orders = list(
        run.nodes.filter(state=Node.State.COMPLETED).order_by("told_order").values_list("told_order", flat=True)
    )
    if orders != list(range(_told(run) + 1)):
        yield "the order of completion has gaps or doubles"
    numbers = list(run.nodes.order_by("number").values_list("number", flat=True))
    if numbers != list(range(len(numbers))):
        yield "numbers of nodes have gaps or doubles"


def _budget(run: Run) -> Iterator[str]:
    limits, ledger = limits_of(run), ledger_of(run.pk)
    if any(ledger.reserved.to_json()[name] not in (0, "0") for name in ledger.reserved.to_json()):
        yield f"still reserved: {ledger.reserved}"
    if not kept(limits, ledger):
        yield f"spent more than the limits: {ledger.spent} of {limits}"
    hold = step_hold(limits, ledger)
    bounds = limit_amounts(limits).items()
    if not any(getattr(ledger.spent, name) + getattr(hold, name) > limit for name, limit in bounds):
        yield f"ended with room for one more step: {ledger.spent} of {limits}"
    if not run.stop_reason and _told(run) != run.steps:
        yield f"told {_told(run)} nodes, not exactly {run.steps}"


def _replay(run: Run) -> Iterator[str]:
    yield from (f"replay: {text}" for text in differences(run))
    if "replay_run" not in get_commands():
        return
    try:
        call_command("replay_run", str(run.pk), stdout=StringIO())
    except (CommandError, SystemExit) as error:
        yield f"the replay differs: {error}"


def doubles() -> list[str]:
    """Equal kernels that were judged twice although the first verdict was good."""
    judged = Evaluation.objects.exclude(verdict__in=[verdict.value for verdict in UNCACHED])
    same = judged.values("problem", "device", "candidate_hash").annotate(times=Count("pk")).filter(times__gt=1)
    return [f"kernel {row['candidate_hash'][:12]} was judged {row['times']} times" for row in same]
