"""The rows of every room, where Django looks for them. Import each from its own room."""

from __future__ import annotations

from adaexplore_site.accounts.models import ApiToken
from adaexplore_site.api.models import ApiAnswer
from adaexplore_site.core.models import AuditEntry, Webhook, WebhookDelivery
from adaexplore_site.notifications.models import NoticeMark
from adaexplore_site.saved_views.models import SavedView

__all__ = ["ApiAnswer", "ApiToken", "AuditEntry", "NoticeMark", "SavedView", "Webhook", "WebhookDelivery"]
