"""Answers of the API, kept for repeated requests."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models


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
