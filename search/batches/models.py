"""Rows of a campaign: many problems searched as one unit, under one budget of steps."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from memory.adapt.models import Batch, BatchItem


class Campaign(Batch):
    """A budget of steps that the searches of all its problems share."""

    class Seeds(models.TextChoices):
        SAME = "same"  # every search takes the campaign's seed
        SPREAD = "spread"  # each takes its own, made from the campaign's seed and the problem's text

    seeds = models.CharField(max_length=6, choices=Seeds.choices, default=Seeds.SPREAD)
    steps = models.PositiveIntegerField()  # shared budget: completed nodes of all its searches, roots not counted
    origin = models.CharField(max_length=10, default="web")  # Run.Origin of its searches

    class Meta(Batch.Meta):
        indexes = [models.Index(fields=["state"], name="campaign_state")]  # beat: which go on
        constraints = [
            models.CheckConstraint(
                condition=Q(steps__gte=1, at_once__gte=1, concurrency__gte=1), name="campaign_has_a_budget"
            )
        ]

    def __str__(self) -> str:
        return f"campaign {self.pk}"


class CampaignEntry(BatchItem):
    """One problem of a campaign."""

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="entries")
    problem = models.ForeignKey("judge.Problem", on_delete=models.PROTECT, related_name="campaign_entries")
    run = models.OneToOneField(
        "search.Run", null=True, blank=True, on_delete=models.SET_NULL, related_name="campaign_entry"
    )

    class Meta:
        ordering = ("campaign", "place")
        constraints = [
            models.UniqueConstraint(fields=["campaign", "problem"], name="campaign_problem_once"),
            models.UniqueConstraint(fields=["campaign", "place"], name="campaign_place_once"),
            models.CheckConstraint(condition=Q(run__isnull=True) | Q(state="started"), name="campaign_run_is_started"),
        ]

    def __str__(self) -> str:
        return f"{self.campaign} problem {self.problem_id}"
