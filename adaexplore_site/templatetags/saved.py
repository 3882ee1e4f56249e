"""The saved views of a list, above it."""

from __future__ import annotations

from typing import Any

from django import template
from django.db.models import Q
from django.utils import timezone

from adaexplore_site.saved_views.models import SavedView
from adaexplore_site.saved_views.services import KEPT, MOST, PLACES, address_of, query_of

register = template.Library()


@register.inclusion_tag("saved_views/_views.html", takes_context=True)
def saved_views(context: dict[str, Any], place: str) -> dict[str, Any]:
    """Own and shared views of the page, the one that is open among them; and the forms that save and change them."""
    request = context["request"]
    here = query_of(place, request.GET.urlencode())
    own = Q(owner=request.user.pk)
    alive = Q(deleted_at=None) & (own | Q(shared=True))
    lately = own & Q(deleted_at__gt=timezone.now() - KEPT)
    rows = SavedView.objects.filter(alive | lately, place=place).select_related("owner").order_by("name", "pk")
    living, gone = [row for row in rows if row.deleted_at is None], [row for row in rows if row.deleted_at is not None]
    mine = [row for row in living if row.owner_id == request.user.pk]
    return {
        "views": [(row, address_of(place, row.query), row.query == here) for row in living],
        "mine": mine,
        "gone": gone[-5:],
        "place": place,
        "page": PLACES[place][0],
        "query": here,
        "room": len(mine) < MOST,
        "csrf_token": context.get("csrf_token"),
        "roles": context.get("roles"),
        "user": request.user,
    }
