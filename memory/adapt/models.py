"""Rows of adapt runs: synthesised tasks, searched to learn from their failures, with and without memory."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q


class AdaptRun(models.Model):
    """One Adapt stage. Settings that its searches share; progress and effect are read from the searches."""

    class State(models.TextChoices):
        RUNNING = "running"
        PAUSED = "paused"
        STOPPED = "stopped"
        FINISHED = "finished"

    ENDED = (State.STOPPED, State.FINISHED)

    title = models.CharField(max_length=160)
    device = models.ForeignKey("judge.Device", on_delete=models.PROTECT, related_name="adapt_runs")
    proposer = models.CharField(max_length=20)
    proposer_options: Any = models.JSONField(default=dict, blank=True)  # model name; never a key
    composer = models.CharField(max_length=20, default="builtin")  # who writes the tasks: builtin or model
    seed = models.BigIntegerField(default=0)
    tasks = models.PositiveIntegerField(default=200)  # tasks to attempt
    steps = models.PositiveIntegerField(default=25)  # of the search on each
    control_steps = models.PositiveIntegerField(default=0)  # of a search without memory on each; 0: none
    at_once = models.PositiveSmallIntegerField(default=1)
    concurrency = models.PositiveSmallIntegerField(default=1)
    params: Any = models.JSONField(default=dict)  # SearchParams of every search
    memory: Any = models.JSONField(default=dict)  # trust, threshold, budget_tokens, withhold of every search
    limits: Any = models.JSONField(default=dict, blank=True)  # of the whole run: tokens, usd, device_s, wall_s
    transfer_of = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="transfers"
    )  # nothing is composed: given problems are searched with the rules that one has learned
    state = models.CharField(max_length=8, choices=State.choices, default=State.RUNNING)
    stop_reason = models.CharField(max_length=200, blank=True)
    driven_until = models.DateTimeField(null=True, blank=True)  # a command carries it on; beat leaves it alone
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        indexes = [models.Index(fields=["state"], name="adapt_run_state")]  # beat: which go on

    def __str__(self) -> str:
        return f"adapt run {self.pk}"

    @property
    def ended(self) -> bool:
        return self.state in self.ENDED


class AdaptTask(models.Model):
    """One task: composed, perhaps refused with the reason, else searched with memory and (control) without."""

    class State(models.TextChoices):
        WAITING = "waiting"  # composed, waits for its preflight or a free place
        REFUSED = "refused"
        STARTED = "started"  # the searches say the rest
        SKIPPED = "skipped"  # the run ended before

    adapt = models.ForeignKey(AdaptRun, on_delete=models.CASCADE, related_name="entries")
    place = models.PositiveIntegerField()  # 1, 2, ...: the order of composition and of use
    recipe: Any = models.JSONField(default=dict, blank=True)  # seeds and operators it was made of
    source = models.TextField(blank=True)
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    reason = models.TextField(blank=True)  # why it was refused or skipped
    problem = models.ForeignKey(
        "judge.Problem", null=True, blank=True, on_delete=models.PROTECT, related_name="adapt_tasks"
    )
    run = models.OneToOneField(
        "search.Run", null=True, blank=True, on_delete=models.SET_NULL, related_name="adapt_task"
    )
    control = models.OneToOneField(
        "search.Run", null=True, blank=True, on_delete=models.SET_NULL, related_name="adapt_control"
    )
    asked_at = models.DateTimeField(null=True, blank=True)  # when its preflight was last asked for

    class Meta:
        ordering = ("adapt", "place")
        constraints = [
            models.UniqueConstraint(fields=["adapt", "place"], name="adapt_task_place_once"),
            models.CheckConstraint(condition=Q(run__isnull=True) | Q(state="started"), name="adapt_run_is_started"),
        ]

    def __str__(self) -> str:
        return f"adapt run {self.adapt_id} task {self.place}"
