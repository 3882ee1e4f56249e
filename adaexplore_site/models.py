"""Rows that every room needs: the audit of what people did, and the tokens that programs sign in with."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from adaexplore_site.webhook_models import Webhook, WebhookDelivery

__all__ = ["Action", "ApiAnswer", "ApiToken", "Webhook", "WebhookDelivery"]


class Action(models.Model):
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


class ApiToken(models.Model):
    """What a program signs in with: only its hash. It may do what its scopes and its user's roles both allow."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=60)
    prefix = models.CharField(max_length=12)  # of its text, to know it again in a list
    digest = models.CharField(max_length=64, unique=True)  # SHA-256 of the text
    scopes: Any = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)  # to the minute
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"token {self.pk} of {self.user_id}"


class ApiAnswer(models.Model):
    """What a request with an idempotency key was answered, so that its repetition gets the same."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    key = models.CharField(max_length=120)
    asked = models.CharField(max_length=64)  # SHA-256 of act, place and fields
    answer: Any = models.JSONField(null=True, blank=True)  # NULL: the first request is not answered yet
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="api_answer_once_per_key")]

    def __str__(self) -> str:
        return f"answer {self.pk} to {self.user_id}"
