"""Celery's door to the site's own work: sending webhooks."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from adaexplore_site.webhooks.sending import deliver_due


@shared_task(name="adaexplore_site.tasks.deliver_webhooks")  # type: ignore[untyped-decorator]
def deliver_webhooks() -> None:
    """Send what is due; beat calls it every five seconds."""
    deliver_due(now=timezone.now())
