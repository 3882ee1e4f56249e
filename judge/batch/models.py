"""Rows of jobs that left for other machines."""

from __future__ import annotations

from typing import Any

from django.db import models

from adaexplore_site.core.leases import Leased
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem, SealedSet


class BatchJob(Leased):
    """A job that left for a device of another machine, and what came back. The same outcome counts once.

    A job without a source asks for the problem's preflight.
    """

    uid = models.CharField(max_length=32, unique=True)
    nonce = models.CharField(max_length=32)  # an outcome must repeat it: none is taken from another export
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="batch_jobs")
    problem = models.ForeignKey(Problem, on_delete=models.PROTECT, related_name="batch_jobs")
    candidate_hash = models.CharField(max_length=64)
    source = models.TextField(blank=True)
    beat = models.FloatField(null=True, blank=True)  # as it left: see Job.beat
    incumbent = models.TextField(blank=True)  # source of the best as it left: see Job.incumbent
    sealed_set = models.ForeignKey(  # that went with it
        SealedSet, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    about = models.CharField(max_length=200, blank=True)  # problem, search and node, for whoever watches there
    digest = models.CharField(max_length=64)  # of the job's signed body
    evaluation = models.OneToOneField(Evaluation, null=True, blank=True, on_delete=models.PROTECT)
    outcome_digest = models.CharField(max_length=64, blank=True)  # of the signed outcome that became the evaluation
    unsigned: Any = models.JSONField(default=dict, blank=True)  # digest of an unsigned outcome -> id of its evaluation
    # Digests of the outcomes that told of a fault of the judge there; each gave the job a new nonce.
    lost: Any = models.JSONField(default=list, blank=True)
    refusal = models.CharField(
        max_length=300, blank=True
    )  # why its last outcome was refused, or it could not be judged
    lease_owner = models.CharField(max_length=120, blank=True)  # the process that took it over HTTPS
    lease_since = models.DateTimeField(null=True, blank=True)  # when that process took it
    created_at = models.DateTimeField(auto_now_add=True)
    imported_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(  # an export repeats the jobs that still wait
                fields=["device", "problem", "candidate_hash"], name="batch_job_waiting"
            ),
        ]

    def __str__(self) -> str:
        return f"job {self.uid[:12]} for {self.device_id}"

    @property
    def preflight(self) -> bool:
        """Whether it asks for the preflight of its problem."""
        return not self.source
