"""Rows of batches: many searches as one unit. What every batch has, and the rows of adapt runs.

An adapt run searches practice tasks, with memory and without, to learn from their failures.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from adaexplore_site.core.leases import Leased


class Batch(Leased):
    """Settings that its searches share. Progress is read from the searches, never stored here.

    The lease is held by a command that drives it; beat leaves the batch alone while it runs.
    """

    class State(models.TextChoices):
        RUNNING = "running"
        PAUSED = "paused"  # starts nothing; its searches are paused, too
        STOPPED = "stopped"
        FINISHED = "finished"

    ENDED = (State.STOPPED, State.FINISHED)

    title = models.CharField(max_length=160)
    device = models.ForeignKey("judge.Device", on_delete=models.PROTECT, related_name="%(class)ss")
    proposer = models.CharField(max_length=20)
    proposer_options: Any = models.JSONField(default=dict, blank=True)  # model name; never a key
    params: Any = models.JSONField(default=dict)  # SearchParams of every search
    memory: Any = models.JSONField(default=dict, blank=True)  # MemoryChoice of every search; empty: its defaults
    seed = models.BigIntegerField(default=0)
    at_once = models.PositiveSmallIntegerField(default=1)  # items that are searched at the same time
    concurrency = models.PositiveSmallIntegerField(default=1)  # steps in flight of each search
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    stop_reason = models.CharField(max_length=200, blank=True)  # why it is paused or has ended
    attempts = None  # type: ignore[assignment]  # not counted
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True
        ordering = ("-id",)

    @property
    def ended(self) -> bool:
        return self.state in self.ENDED


class BatchItem(models.Model):
    """One problem of a batch: waits, has its searches, or was left out with the reason."""

    class State(models.TextChoices):
        WAITING = "waiting"  # for its preflight or a free place
        STARTED = "started"  # the searches say the rest
        REFUSED = "refused"  # by the preflight, or because no search could be started
        SKIPPED = "skipped"  # the batch ended before

    ARMS: ClassVar[tuple[str, ...]] = ("run",)  # fields that hold its searches

    place = models.PositiveIntegerField()  # 1, 2, ...: the order in which they start
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    reason = models.TextField(blank=True)  # why it was refused or skipped
    asked_at = models.DateTimeField(null=True, blank=True)  # when its preflight was last asked for

    class Meta:
        abstract = True

    @property
    def waiting(self) -> bool:
        return self.state == self.State.WAITING

    @property
    def search_state(self) -> str:
        """Waiting, refused, skipped, or the state of its search; one whose search is gone was stopped."""
        run = getattr(self, "run", None)
        if run is not None:
            return str(run.state)
        return "stopped" if self.state == self.State.STARTED else str(self.state)

    @property
    def live(self) -> bool:
        """Whether a search of it is open."""
        searches = [getattr(self, arm) for arm in self.ARMS]
        return any(search is not None and not search.ended for search in searches)

    def close(self, state: BatchItem.State, reason: str) -> None:
        """End it without a search."""
        self.state, self.reason = state, reason
        self.save(update_fields=["state", "reason"])


class AdaptRun(Batch):
    """One Adapt stage."""

    composer = models.CharField(max_length=20, default="builtin")  # what writes the tasks: builtin or model
    tasks = models.PositiveIntegerField(default=200)  # tasks to attempt
    steps = models.PositiveIntegerField(default=25)  # of the search on each
    control_steps = models.PositiveIntegerField(default=0)  # of a search without memory on each; 0: none
    limits: Any = models.JSONField(default=dict, blank=True)  # of the whole run: tokens, usd, device_s, wall_s
    transfer_of = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="transfers"
    )  # nothing is composed: given problems are searched with the rules that one has learned

    class Meta(Batch.Meta):
        indexes = [models.Index(fields=["state"], name="adapt_run_state")]  # beat: which go on

    def __str__(self) -> str:
        return f"adapt run {self.pk}"


class AdaptTask(BatchItem):
    """One task: composed, perhaps refused with the reason, else searched with memory and (control) without."""

    ARMS = ("run", "control")

    adapt = models.ForeignKey(AdaptRun, on_delete=models.CASCADE, related_name="entries")
    recipe: Any = models.JSONField(default=dict, blank=True)  # seeds and operators it was made of
    source = models.TextField(blank=True)
    problem = models.ForeignKey(
        "judge.Problem", null=True, blank=True, on_delete=models.PROTECT, related_name="adapt_tasks"
    )
    run = models.OneToOneField(
        "search.Run", null=True, blank=True, on_delete=models.SET_NULL, related_name="adapt_task"
    )
    control = models.OneToOneField(
        "search.Run", null=True, blank=True, on_delete=models.SET_NULL, related_name="adapt_control"
    )

    class Meta:
        ordering = ("adapt", "place")
        constraints = [
            models.UniqueConstraint(fields=["adapt", "place"], name="adapt_task_place_once"),
            models.CheckConstraint(condition=Q(run__isnull=True) | Q(state="started"), name="adapt_run_is_started"),
        ]

    def __str__(self) -> str:
        return f"adapt run {self.adapt_id} task {self.place}"
