"""Rows of the policy laboratory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import models

from adaexplore_site.core.text import clip


class LabResult(models.Model):
    """One experiment of the policy laboratory. Never edited; all its figures are simulated."""

    created_at = models.DateTimeField(auto_now_add=True)
    command = models.CharField(max_length=2000)  # repeats it
    protocol = models.PositiveSmallIntegerField()  # search.lab.experiment.PROTOCOL: only equal ones compare
    partial = models.BooleanField(default=False)  # stopped before its end
    seconds = models.FloatField()
    result: Any = models.JSONField(default=dict)  # search.lab.results.result_document

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"laboratory result {self.pk}"


def lab_result_record(*, document: Mapping[str, Any], command: str) -> LabResult:
    """Store one result whole, with the command that repeats it."""
    return LabResult.objects.create(
        command=clip(command, 2000),
        protocol=document["protocol"],
        partial=document["partial"],
        seconds=document["seconds"],
        result=dict(document),
    )
