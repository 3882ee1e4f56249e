"""The saved views of a list, above it."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils import timezone

from search.models import SavedView
from search.saved.places import PLACES, address_of, query_of
from search.services.saved_views import KEPT, MOST

register = template.Library()


@register.inclusion_tag("search/_views.html", takes_context=True)
def saved_views(context: dict[str, Any], place: str) -> dict[str, Any]:
    """Own and shared views of the page, the one that is open among them; and the forms that save and change them."""
    request = context["request"]
    here = query_of(place, request.GET.urlencode())
    rows = list(SavedView.objects.filter(place=place).select_related("owner").order_by("name", "pk"))
    mine = [row for row in rows if row.owner_id == request.user.pk]
    living = [row for row in rows if row.deleted_at is None and (row.shared or row.owner_id == request.user.pk)]
    since = timezone.now() - KEPT
    gone = [row for row in mine if row.deleted_at is not None and row.deleted_at > since]
    return {
        "views": [(row, address_of(place, row.query), row.query == here) for row in living],
        "mine": [row for row in mine if row.deleted_at is None],
        "gone": gone[-5:],
        "place": place,
        "page": PLACES[place][0],
        "query": here,
        "room": len(mine) < MOST,
        "csrf_token": context.get("csrf_token"),
        "roles": context.get("roles"),
        "user": request.user,
    }
