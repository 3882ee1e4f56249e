"""Celery's door to the site's own work: sending webhooks."""

from __future__ import annotations

import threading

from celery import shared_task
from django.utils import timezone

from adaexplore_site.webhooks.services import deliver_due, deliveries_forget

_SENDING = threading.Lock()  # of the I/O workers, which are threads: receivers that hang hold one of them, never all


@shared_task(name="adaexplore_site.tasks.deliver_webhooks")  # type: ignore[untyped-decorator]
def deliver_webhooks() -> None:
    """Send what is due; beat calls it every five seconds. One call at a time."""
    if _SENDING.acquire(blocking=False):
        try:
            deliver_due()
        finally:
            _SENDING.release()


@shared_task(name="adaexplore_site.tasks.forget_deliveries")  # type: ignore[untyped-decorator]
def forget_deliveries() -> None:
    """Forget old sendings; beat calls it every hour."""
    deliveries_forget(now=timezone.now())
