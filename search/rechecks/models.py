"""Kernels that are judged once more because a person asked: verified, disputed, or raced against another one."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from adaexplore_site.core.leases import Leased
from judge.evaluations.models import Evaluation, Race


class Recheck(Leased):
    """One fresh judgement of a completed node's kernel, with an audit, past the cache of verdicts. The node keeps the
    verdict that the search went on with; this row holds the new one beside it."""

    class Kind(models.TextChoices):
        VERIFY = "verify"
        DISPUTE = "dispute"  # a person does not believe the verdict; `note` says why
        RACE = "race"  # measured side by side with `rival`

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"  # the judge came to no verdict; the message says why

    OPEN = (State.QUEUED, State.RUNNING)

    node = models.ForeignKey("search.Node", on_delete=models.CASCADE, related_name="rechecks")
    rival = models.ForeignKey("search.Node", null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    note = models.CharField(max_length=1000, blank=True)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    state = models.CharField(max_length=8, choices=State.choices, default=State.QUEUED)
    before = models.ForeignKey(Evaluation, on_delete=models.PROTECT, related_name="+")  # the node's verdict
    evaluation = models.ForeignKey(Evaluation, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    race = models.ForeignKey(Race, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    message = models.CharField(max_length=600, blank=True)
    lease_until = models.DateTimeField()  # when the reaper sends it again, or takes its worker for lost
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.UniqueConstraint(  # a second press while one is under way changes nothing
                fields=["node", "kind"], condition=Q(state__in=["queued", "running"]), name="recheck_one_at_a_time"
            ),
            models.CheckConstraint(
                condition=Q(kind="race", rival__isnull=False) | (~Q(kind="race") & Q(rival__isnull=True)),
                name="recheck_only_races_have_a_rival",
            ),
            models.CheckConstraint(
                condition=~Q(state="done") | Q(evaluation__isnull=False), name="recheck_done_has_a_verdict"
            ),
        ]
        indexes = [models.Index(fields=["state", "lease_until"], name="recheck_due")]  # reaper

    def __str__(self) -> str:
        return f"{self.kind} of {self.node_id}: {self.state}"

    @property
    def open(self) -> bool:
        """Whether it waits or runs."""
        return self.state in self.OPEN
