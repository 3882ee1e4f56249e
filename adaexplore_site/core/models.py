"""Rows of the audit log."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models


class AuditEntry(models.Model):
    """Audit of one operator act: who, what, on what, before and after. The key makes a repeated submit one act."""

    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    verb = models.CharField(max_length=40)  # "run.start", "run.pause", "problem.upload", "rule.approve", ...
    object_type = models.CharField(max_length=20)
    object_id = models.CharField(max_length=80)
    before: Any = models.JSONField(default=dict, blank=True)
    after: Any = models.JSONField(default=dict, blank=True)
    key = models.CharField(max_length=64, null=True, blank=True, unique=True)  # NULL: no key given
    via = models.CharField(max_length=80, blank=True)  # name of the token it came by; empty: a page or a command
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "search_action"  # where it was before memory needed it, too
        ordering = ("-created_at", "-id")
        indexes = [models.Index(fields=["object_type", "object_id"], name="action_of_object")]

    def __str__(self) -> str:
        return f"{self.verb} {self.object_type} {self.object_id}"
