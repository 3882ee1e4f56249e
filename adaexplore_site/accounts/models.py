"""Rows of API tokens."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models


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
