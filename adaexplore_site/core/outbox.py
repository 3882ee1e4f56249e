"""Write down that an event is to be sent, in the transaction of the event itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.models import Webhook, WebhookDelivery

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

FINISHED, FAILED, BEST = "search.finished", "search.failed", "search.best"
BUDGET, REVIEWS, TEST = "budget.alarm", "reviews.waiting", "test"
EVENTS: Mapping[str, StrOrPromise] = {
    FINISHED: _("a search finished or was stopped"),
    FAILED: _("a search failed"),
    BEST: _("a search found a new audited best, faster than PyTorch"),
    BUDGET: _("a search ended because a budget is spent"),
    REVIEWS: _("a rule waits for review, once an hour at most"),
}


def webhook_tell(*, event: str, body: dict[str, Any], now: datetime, at_most_every: timedelta | None = None) -> int:
    """Rows for every webhook that is on and asked for the event; how many. With `at_most_every` a webhook that was
    told of such an event lately is left out."""
    hooks = [hook for hook in Webhook.objects.filter(on=True) if event in hook.events]
    if at_most_every is not None and hooks:
        lately = WebhookDelivery.objects.filter(event=event, created_at__gt=now - at_most_every)
        told = set(lately.values_list("webhook", flat=True))
        hooks = [hook for hook in hooks if hook.pk not in told]
    rows = [WebhookDelivery(webhook=hook, event=event, body=body, lease_until=now) for hook in hooks]
    return len(WebhookDelivery.objects.bulk_create(rows)) if rows else 0
