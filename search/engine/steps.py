"""The life of a step: reserve, propose, judge, tell. Every hop may run twice or never end; nothing is lost or doubled.

A hop claims its node by a conditional UPDATE, works without a transaction, and writes its result only while it still
holds the node. Each returns what the caller is to enqueue; a lost race returns nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from judge.bench.runner import Bench
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.evaluations.services import evaluation_run
from judge.values import JudgeError
from memory.prompting.queries import frozen_of, uses_record
from search.algorithm.decide import Decision, decide, node_rng
from search.algorithm.params import SearchParams
from search.engine.briefing import task_of
from search.engine.budgets import Room, run_room
from search.engine.completion import node_tell, run_follow, run_locked
from search.engine.device_health import device_faulted, device_judged
from search.engine.duplicates import twin_judged, twin_wait
from search.engine.faults import judge_fault, proposer_fault
from search.engine.leases import PERSON, QUEUE_S, QUEUED, lease_kept, node_claim, owner_name
from search.engine.proposals import proposals_record
from search.engine.replies import reply_submit, reply_take
from search.ledger.ledger import Amounts
from search.proposers import get as get_proposer
from search.proposers.protocol import Proposer, ProposerError, WaitingForPerson
from search.records.events import event_write
from search.records.facts import node_rows, tree_of
from search.records.follow_ups import Hop
from search.records.models import Node, Run
from search.records.queries import best_node
from search.records.steering_log import steering_of
from search.records.winning import has_won

if TYPE_CHECKING:
    from search.records.facts import NodeRow

__all__ = ["reply_submit", "step_judge", "step_propose", "step_reserve", "step_tell"]

Clock = Callable[[], datetime]


def step_reserve(*, run_id: int, clock: Clock = timezone.now) -> list[Hop]:
    """Ask: fill the run's free places with new nodes, or end it when its budget is told and nothing is in flight."""
    hops: list[Hop] = []
    with transaction.atomic():
        run = run_locked(run_id)
        if run is None or run.state != Run.State.RUNNING:
            return []
        rows = node_rows(run_id)
        in_flight = sum(row.state in Node.IN_FLIGHT for row in rows)
        room = run_room(run=run, in_flight=in_flight, now=clock())
        if room.count:
            nodes = _reserve(run, rows, room, clock())
            hops = [Hop("propose", node.pk) for node in nodes]
        else:
            run_follow(run=run, now=clock())
    return hops


def _reserve(run: Run, rows: list[NodeRow], room: Room, now: datetime) -> list[Node]:
    """Decide and write nodes with their budget. A large tree is replayed once; each reservation weighs on the next."""
    steering = steering_of(run.pk)
    params = steering.params(SearchParams.of_run(run.params))
    tree, touched = tree_of(rows, params), {row.number for row in rows if row.touched}
    ids = {row.number: row.id for row in rows}
    nodes = []
    for number in range(rows[-1].number + 1, rows[-1].number + 1 + room.count):
        decision = decide(tree, params, node_rng(run.seed, number), steering)
        tree.reserve(number, decision.parent, decision.kind)
        steering = steering.used(number, decision.uses)
        inherited = not touched.isdisjoint((decision.parent, *decision.context))
        node = _reserve_one(run, number, ids[decision.parent], decision, room.hold, now, inherited=inherited)
        nodes.append(node)
        if node.touched:
            touched.add(number)
    uses_record(frozen=frozen_of(run.pk), seed=run.seed, nodes=[(node.pk, node.number) for node in nodes])
    return nodes


def _reserve_one(
    run: Run, number: int, parent_id: int, decision: Decision, hold: Amounts, now: datetime, *, inherited: bool
) -> Node:
    node = Node.objects.create(
        run=run,
        number=number,
        parent_id=parent_id,
        kind=decision.kind,
        context=list(decision.context),
        why=decision.why,
        held=hold.to_json(),
        steered=decision.steered,
        touched=bool(decision.steered) or inherited,
        lease_owner=QUEUED,
        lease_until=now + timedelta(seconds=QUEUE_S),
    )
    payload = {"number": number, "parent": decision.parent, "kind": decision.kind, "context": node.context}
    if decision.steered:
        payload["steered"] = decision.steered
    event_write(run=run, kind="node.reserved", payload=payload)
    return node


def step_propose(
    *, node_id: int, proposer_for: Callable[[str], Proposer] = get_proposer, clock: Clock = timezone.now
) -> list[Hop]:
    """Call the run's proposer for a reserved node and store what came of it."""
    owner = owner_name()
    if not node_claim(node_id=node_id, state=Node.State.PROPOSING, owner=owner, now=clock()):
        return []
    node = Node.objects.select_related("run__problem", "run__device", "parent").get(pk=node_id)
    try:
        with lease_kept(node_id=node_id, owner=owner):
            reply = proposer_for(node.run.proposer).propose(task_of(node))
    except WaitingForPerson as waiting:
        return _wait_for_person(node, owner, waiting)
    except ProposerError as error:
        return proposer_fault(node=node, owner=owner, error=error, now=clock())
    return reply_take(node=node, owner=owner, reply=reply, now=clock()) or []


def _wait_for_person(node: Node, owner: str, waiting: WaitingForPerson) -> list[Hop]:
    """Leave the node on the page without a lease, its prompt recorded."""
    with transaction.atomic():
        run = run_locked(node.run_id)
        held = Node.objects.filter(pk=node.pk, state=Node.State.PROPOSING, lease_owner=owner)
        if run is not None and held.update(lease_owner=PERSON, lease_until=None, attempts=0):
            proposals_record(node=node, proposer=run.proposer, calls=(waiting.call,))
            event_write(run=run, kind="node.waiting", payload={"number": node.number})
    return []


def step_judge(*, node_id: int, bench_for: Callable[[Device], Bench], clock: Clock = timezone.now) -> list[Hop]:
    """Judge a node's kernel on the run's device and tell the verdict. An equal candidate takes the known verdict."""
    owner = owner_name()
    node, hops = _claim_for_judging(node_id, owner, clock())
    if node is None:
        return hops
    problem, device = node.run.problem, node.run.device
    try:
        with lease_kept(node_id=node_id, owner=owner):
            bench = bench_for(device)
            best = best_node(node.run_id)
            evaluation, known = evaluation_run(
                problem=problem,
                device=device,
                source=node.source,
                bench=bench,
                beat=best.evaluation.speedup if best and best.evaluation else None,
                # Raced with a kernel that beat nothing, one that beats PyTorch might tie and stay without an audit.
                incumbent=best.source if best and has_won(best.evaluation) else None,
            )
    except JudgeError as error:
        device_faulted(device=device, message=str(error))
        return judge_fault(node=node, owner=owner, error=error, now=clock())
    if not known:
        device_judged(evaluation=evaluation, bench=bench)
    reused = known and evaluation.nodes.exclude(pk=node.pk).exists()  # not after a crash between verdict and tell
    return step_tell(node=node, owner=owner, evaluation_id=evaluation.pk, reused=reused, clock=clock)


def _claim_for_judging(node_id: int, owner: str, now: datetime) -> tuple[Node | None, list[Hop]]:
    """The node, or what to do instead: come back later while an equal kernel is on the device."""
    with transaction.atomic():
        node = Node.objects.select_related("run__problem", "run__device").filter(pk=node_id).first()
        run = run_locked(node.run_id) if node is not None else None
        if node is None or run is None or node.run.device.state == Device.State.QUARANTINED:
            return None, []  # the reaper asks again; nothing is judged where nothing is believed
        if twin_judged(node=node, run=node.run, now=now):
            return None, twin_wait(node=node, run=node.run, now=now)
        if not node_claim(node_id=node_id, state=Node.State.JUDGING, owner=owner, now=now):
            return None, []
        event_write(run=run, kind="node.judging", payload={"number": node.number, "device": node.run.device.name})
    return Node.objects.select_related("run__problem", "run__device").get(pk=node_id), []


def step_tell(
    *, node: Node, owner: str, evaluation_id: int, reused: bool = False, clock: Clock = timezone.now
) -> list[Hop]:
    """Tell a judged node. A second tell, or one by a worker whose lease has passed on, changes nothing."""
    with transaction.atomic():
        run = run_locked(node.run_id)
        if run is None:
            return []
        evaluation = Evaluation.objects.get(pk=evaluation_id)
        hops = node_tell(run=run, node=node, owner=owner, now=clock(), evaluation=evaluation, reused=reused)
    return hops or []
