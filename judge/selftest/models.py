"""Rows of self-tests."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from judge.devices.models import Device


class SelfTest(models.Model):
    """One run of the judge's self-test on a device: what every attack, honest kernel and planted bug came to."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        FINISHED = "finished"
        FAILED = "failed"  # the judge could not be tried at all; the message says why

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="self_tests")
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    started_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    queued_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    protocol = models.CharField(max_length=40, blank=True)
    toolchain = models.CharField(max_length=120, blank=True)
    total = models.PositiveIntegerField(default=0)  # entries to judge, and how many are, while it runs
    done = models.PositiveIntegerField(default=0)
    red = models.BooleanField(null=True, blank=True)  # something was not as it must be; NULL until finished
    result: Any = models.JSONField(default=dict, blank=True)  # judge.selftest.results.Report
    message = models.TextField(blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.CheckConstraint(
                condition=Q(state="finished", red__isnull=False, finished_at__isnull=False) | ~Q(state="finished"),
                name="self_test_finished_has_a_result",
            ),
            models.UniqueConstraint(  # a second start while one is under way changes nothing
                fields=["device"], condition=Q(state__in=["queued", "running"]), name="self_test_one_at_a_time"
            ),
        ]
        indexes = [
            models.Index(fields=["device", "state", "-id"], name="self_test_last"),  # whether a device is trusted
        ]

    def __str__(self) -> str:
        return f"self-test {self.pk} of {self.device_id}: {self.state}"
