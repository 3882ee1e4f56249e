"""Celery's doors to memory."""

from __future__ import annotations

from celery import shared_task

from memory.rules.services import rules_recheck


@shared_task(name="memory.tasks.recheck_rules")  # type: ignore[untyped-decorator]
def recheck_rules() -> None:
    """Ask for another look at rules that harm or are bound to a passed version; beat calls it every ten minutes."""
    rules_recheck()
