"""Rows of a campaign: many problems searched as one unit, under one budget of steps."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class Campaign(models.Model):
    """Settings that its searches share. Progress is read from the searches, never stored here."""

    class State(models.TextChoices):
        RUNNING = "running"
        PAUSED = "paused"  # starts nothing; its searches are paused, too
        STOPPED = "stopped"
        FINISHED = "finished"

    class Seeds(models.TextChoices):
        SAME = "same"  # every search takes the campaign's seed
        SPREAD = "spread"  # each takes its own, made from the campaign's seed and the problem's text

    ENDED = (State.STOPPED, State.FINISHED)

    title = models.CharField(max_length=160)
    device = models.ForeignKey("judge.Device", on_delete=models.PROTECT, related_name="campaigns")
    proposer = models.CharField(max_length=20)
    proposer_options = models.JSONField(default=dict, blank=True)  # model name; never a key
    params = models.JSONField(default=dict)  # SearchParams of every search
    memory = models.JSONField(default=dict, blank=True)  # MemoryChoice of every search; empty: its defaults
    seed = models.BigIntegerField(default=0)
    seeds = models.CharField(max_length=6, choices=Seeds.choices, default=Seeds.SPREAD)
    steps = models.PositiveIntegerField()  # shared budget: told nodes of all its searches, roots not counted
    at_once = models.PositiveSmallIntegerField(default=1)  # searches at the same time
    concurrency = models.PositiveSmallIntegerField(default=1)  # steps in flight of each
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    origin = models.CharField(max_length=10, default="web")  # Run.Origin of its searches
    driven_until = models.DateTimeField(
        null=True, blank=True
    )  # a command carries it on; beat leaves it alone till then
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        indexes = [models.Index(fields=["state"], name="campaign_state")]  # beat: which go on
        constraints = [
            models.CheckConstraint(
                condition=Q(steps__gte=1, at_once__gte=1, concurrency__gte=1), name="campaign_has_a_budget"
            )
        ]

    def __str__(self) -> str:
        return f"campaign {self.pk}"

    @property
    def ended(self) -> bool:
        return self.state in self.ENDED


class CampaignEntry(models.Model):
    """One problem of a campaign: waits, has its search, or was left out with the reason."""

    class State(models.TextChoices):
        WAITING = "waiting"
        STARTED = "started"  # the search says the rest
        REFUSED = "refused"  # by the preflight, or because no search could be started
        SKIPPED = "skipped"  # the campaign was stopped, or its budget was used up

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="entries")
    problem = models.ForeignKey("judge.Problem", on_delete=models.PROTECT, related_name="campaign_entries")
    place = models.PositiveIntegerField()  # 1, 2, ...: the order in which they start
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    reason = models.TextField(blank=True)
    run = models.OneToOneField(
        "search.Run", null=True, blank=True, on_delete=models.SET_NULL, related_name="campaign_entry"
    )
    asked_at = models.DateTimeField(null=True, blank=True)  # when its preflight was last asked for

    class Meta:
        ordering = ("campaign", "place")
        constraints = [
            models.UniqueConstraint(fields=["campaign", "problem"], name="campaign_problem_once"),
            models.UniqueConstraint(fields=["campaign", "place"], name="campaign_place_once"),
            models.CheckConstraint(condition=Q(run__isnull=True) | Q(state="started"), name="campaign_run_is_started"),
        ]

    def __str__(self) -> str:
        return f"{self.campaign} problem {self.problem_id}"
