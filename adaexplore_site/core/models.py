"""Rows of the audit log and of webhooks."""

from __future__ import annotations

import uuid
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


class Webhook(models.Model):
    """An address that is told of events. Its secret is derived of `salt` and SECRET_KEY: no row holds it."""

    address = models.URLField(max_length=500)
    events: Any = models.JSONField(default=list)
    salt = models.CharField(max_length=64)
    on = models.BooleanField(default=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"webhook {self.pk}"


class WebhookDelivery(models.Model):
    """One event for one address, written in the transaction of the event. Sent until it is taken, or given up."""

    class State(models.TextChoices):
        WAITING = "waiting"
        TAKEN = "taken"
        FAILED = "failed"  # nobody tries again

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    uid = models.UUIDField(default=uuid.uuid4, unique=True)  # the receiver knows a repetition by it
    event = models.CharField(max_length=20)
    body: Any = models.JSONField(default=dict)
    state = models.CharField(max_length=7, choices=State.choices, default=State.WAITING)
    tries = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True, blank=True)  # of the last answer; NULL: there was none
    answer = models.CharField(max_length=2048, blank=True)  # its beginning, or why there was none
    created_at = models.DateTimeField(auto_now_add=True)
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        indexes = [models.Index(fields=["state", "due_at"], name="webhook_delivery_due")]  # asked every few seconds

    def __str__(self) -> str:
        return f"{self.event} to webhook {self.webhook_id}: {self.state}"
