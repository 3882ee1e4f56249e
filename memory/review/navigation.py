"""What every page shows of memory: how many rules wait for a review."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from memory.review.queries import open_reviews


def context(request: HttpRequest) -> dict[str, object]:
    """Template context: `open_reviews`, asked of the database only where a template prints it."""
    return {"open_reviews": SimpleLazyObject(lambda: open_reviews(timezone.now()))}
