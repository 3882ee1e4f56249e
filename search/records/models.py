"""Rows of a search: runs, nodes, model calls, and the gap-free event log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from adaexplore_site.core.leases import Leased, LeaseQuerySet
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from search.algorithm.steering import Steering
from search.records.events import Event, NodeBest, Steered, event_read


class Run(models.Model):
    """One search on one problem, with frozen parameters, a seed, a proposer, a device and a budget of steps."""

    class State(models.TextChoices):
        RUNNING = "running"
        PAUSED = "paused"  # steps in flight end, no new ones start
        STOPPING = "stopping"  # draining: ends as stopped once nothing is in flight
        STOPPED = "stopped"
        FINISHED = "finished"
        FAILED = "failed"  # a permanent fault outside the candidates, e.g. a refused key

    class Origin(models.TextChoices):
        WEB = "web"
        COMMAND = "command"
        IMPORT = "import"
        ADAPT = "adapt"

    ENDED = (State.STOPPED, State.FINISHED, State.FAILED)

    problem = models.ForeignKey(Problem, on_delete=models.PROTECT, related_name="runs")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="runs")
    title = models.CharField(max_length=160, blank=True)
    proposer = models.CharField(max_length=20)
    proposer_options = models.JSONField(default=dict, blank=True)  # model name, recording; never a key
    params = models.JSONField(default=dict)  # SearchParams at the start; changes on the way are in the log
    seed = models.BigIntegerField(default=0)
    steps = models.PositiveIntegerField(default=50)  # budget: completed nodes, the root not counted
    concurrency = models.PositiveSmallIntegerField(default=1)
    limits = models.JSONField(default=dict, blank=True)  # RunLimits beside `steps`: see search.ledger.limits
    deadline_at = models.DateTimeField(null=True, blank=True)  # start + limits.wall_s, for the reaper
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    stop_reason = models.CharField(max_length=200, blank=True)
    origin = models.CharField(max_length=10, choices=Origin.choices, default=Origin.WEB)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    event_seq = models.PositiveBigIntegerField(default=0)  # seq of the last RunEvent; the row lock orders events
    imported = models.JSONField(default=dict, blank=True)  # label, source file, steps as published
    branched_from = models.ForeignKey(
        "Node", null=True, blank=True, on_delete=models.SET_NULL, related_name="branches"
    )  # its kernel is node 1 of this run
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)  # out of the lists, nothing else

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = [
            models.Index(fields=["state"], name="run_state"),  # reaper, home page
            models.Index(fields=["ended_at"], name="run_ended"),  # notifications: what has ended since
        ]

    def __str__(self) -> str:
        return f"run {self.pk} on {self.problem_id}"

    @property
    def ended(self) -> bool:
        return self.state in self.ENDED


class NodeQuerySet(LeaseQuerySet["Node"]):
    def completed(self) -> Self:
        """Nodes with their outcome, the root not counted."""
        return self.filter(state=Node.State.COMPLETED).exclude(kind=Node.Kind.ROOT)

    def with_verdicts(self) -> Self:
        """Each with its evaluation; sources and reports are fetched only when touched."""
        return self.select_related("evaluation").defer("source", "evaluation__source", "evaluation__report")

    def on_workers(self, now: datetime) -> Self:
        """Nodes that a living worker holds."""
        return self.held(now).exclude(lease_owner__in=(*Node.UNCLAIMED, Node.PERSON))


class Node(Leased):
    """One candidate kernel. Number 0 is the root: the empty candidate, completed at birth."""

    class Kind(models.TextChoices):
        ROOT = "root"
        LARGE = "large"
        SMALL = "small"

    class State(models.TextChoices):
        PROPOSING = "proposing"  # reserved; the proposer works on it (or a person does)
        JUDGING = "judging"  # source known; waits for or runs on the device
        COMPLETED = "told", "Completed"
        CANCELLED = "cancelled"  # withdrawn without a result: no visit, no reward

    IN_FLIGHT = (State.PROPOSING, State.JUDGING)
    # Owners of the lease that are no worker. The first two may be claimed at any time, a person's never expires.
    QUEUED, RETRY, PERSON = "queue", "retry", "person"
    UNCLAIMED = ("", QUEUED, RETRY)

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="nodes")
    number = models.PositiveIntegerField()
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.CASCADE, related_name="children")
    kind = models.CharField(max_length=6, choices=Kind.choices)
    context = models.JSONField(default=list)  # numbers of the nodes shown to the proposer
    why: Any = models.JSONField(default=dict, blank=True)  # Decision.why: the score parts on the way to the parent
    # People's acts that had a hand in the reservation, by event number: pin, force, notes to read; boosts by node.
    steered: Any = models.JSONField(default=dict, blank=True)
    touched = models.BooleanField(default=False)  # by a person: itself, its parent or a kernel it was shown
    state = models.CharField(max_length=10, choices=State.choices, default=State.PROPOSING)
    source = models.TextField(blank=True)
    source_hash = models.CharField(max_length=64, blank=True)
    # How the node ended when no evaluation was made (a reply without code, an unchanged kernel): reason code, sentence.
    reason = models.CharField(max_length=60, blank=True)
    message = models.TextField(blank=True)
    fingerprint = models.CharField(max_length=12, blank=True)  # of a failed node: see memory.patterns.fingerprints
    summary = models.CharField(max_length=200, blank=True)  # what the proposer says it changed
    evaluation = models.ForeignKey(Evaluation, null=True, blank=True, on_delete=models.PROTECT, related_name="nodes")
    reused = models.BooleanField(default=False)  # took the verdict of an equal candidate, no device time
    told_order = models.PositiveIntegerField(null=True, blank=True)  # 1, 2, ... in completion order: replay needs it
    lease_owner = models.CharField(max_length=80, blank=True)
    held: Any = models.JSONField(default=dict, blank=True)  # budget.ledger.Amounts reserved with it
    sketch = models.BinaryField(
        default=b"", blank=True
    )  # of its source, to find near-equal ones: see search.engine.sketches
    created_at = models.DateTimeField(auto_now_add=True)
    told_at = models.DateTimeField(null=True, blank=True)

    objects = NodeQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        ordering = ("run", "number")
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="node_number_once_per_run"),
            models.UniqueConstraint(fields=["run", "told_order"], name="node_told_order_once_per_run"),
            models.CheckConstraint(
                condition=Q(kind="root", parent__isnull=True) | (~Q(kind="root") & Q(parent__isnull=False)),
                name="node_only_root_has_no_parent",
            ),
            models.CheckConstraint(
                condition=Q(state="told", told_order__isnull=False) | (~Q(state="told") & Q(told_order__isnull=True)),
                name="node_told_has_order",
            ),
        ]
        indexes = [
            models.Index(fields=["state", "lease_until"], name="node_expired_leases"),  # reaper
            models.Index(fields=["source_hash", "state"], name="node_twins"),  # who judges an equal kernel now
        ]

    def __str__(self) -> str:
        return f"run {self.run_id} node {self.number}"

    @property
    def unclaimed(self) -> bool:
        """Whether it waits for the next worker."""
        return self.lease_owner in self.UNCLAIMED


class Proposal(models.Model):
    """One call of a proposer for one node: what was asked, what came back, what it cost. Unknown price is null."""

    PERSON = "person"  # the model of a reply by hand

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="proposals")
    attempt = models.PositiveSmallIntegerField(default=1)
    proposer = models.CharField(max_length=20)
    model = models.CharField(max_length=120, blank=True)
    template = models.CharField(max_length=120, blank=True)  # prompt template name and content hash
    prompt = models.TextField(blank=True)
    reply = models.TextField(blank=True)
    error = models.TextField(blank=True)
    tokens_in = models.PositiveIntegerField(null=True, blank=True)
    tokens_out = models.PositiveIntegerField(null=True, blank=True)
    price_usd = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    latency_ms = models.FloatField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "attempt"], name="proposal_attempt_once_per_node")]

    def __str__(self) -> str:
        return f"{self.node} attempt {self.attempt}"


class RunEventQuerySet(models.QuerySet["RunEvent"]):
    def of(self, *kinds: type[Event]) -> RunEventQuerySet:
        """Events of these kinds."""
        return self.filter(kind__in=[kind.name for kind in kinds])

    def without_parts(self) -> RunEventQuerySet:
        """Of an action of steering on many nodes, only the first event."""
        return self.exclude(kind__startswith="steer.", payload__has_key="of")

    def steered_by(self, seqs: Iterable[int]) -> RunEventQuerySet:
        """The events of these numbers, and those that go on with them."""
        seqs = list(seqs)
        return self.filter(Q(seq__in=seqs) | Q(payload__of__in=seqs))

    def new_bests(self) -> RunEventQuerySet:
        """Kernels that became the best because they were found, and that beat PyTorch."""
        won = Q(payload__won=True) | ~Q(payload__has_key="won")  # older logs do not say
        return self.of(NodeBest).filter(won).exclude(payload__has_key="because")


class RunEvent(models.Model):
    """One change of a run. `seq` counts 1, 2, 3, ... without gaps, in commit order."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=40)
    payload = models.JSONField(default=dict)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = RunEventQuerySet.as_manager()

    class Meta:
        ordering = ("run", "seq")
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="run_event_seq_once")]
        indexes = [models.Index(fields=["run", "kind", "seq"], name="run_event_kind")]  # steering at every reservation

    def __str__(self) -> str:
        return f"run {self.run_id} #{self.seq} {self.kind}"

    @cached_property
    def said(self) -> Event:
        """The payload as a value."""
        return event_read(self.kind, self.payload)

    def steering(self, before: Steering) -> Steering:
        """The steering as it stands after this event."""
        return self.said.fold(before, self.seq) if isinstance(self.said, Steered) else before
