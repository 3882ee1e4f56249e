"""Until when each person has seen notifications."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class NoticeMark(models.Model):
    """Until when a person has seen notifications."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notice_mark")
    seen_at = models.DateTimeField()

    class Meta:
        app_label = "search"

    def __str__(self) -> str:
        return f"user {self.user_id} until {self.seen_at}"
