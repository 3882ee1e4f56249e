"""After a form that acts the page offers to undo it: what was just done, with a button, wherever it was posted."""

from __future__ import annotations

import json
import secrets

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

from adaexplore_site.activity.trail import ActRow, trail_rows
from adaexplore_site.core.audit import written
from adaexplore_site.core.models import AuditEntry

TAG = "undo"  # of a message: undo:<act>:<label of the button>


class UndoOffer(MiddlewareMixin):
    """Marks the message of a form with the act to undo; scripts that swap get an event `acted` instead."""

    def process_request(self, request: HttpRequest) -> None:
        """Note the audit rows of this request."""
        written.set([] if request.method == "POST" else None)

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Offer to undo the last of them, if the person may."""
        rows, user = written.get(), getattr(request, "user", None)
        written.set(None)
        if not rows or response.status_code >= 400 or user is None or not user.is_authenticated:
            return response
        action = AuditEntry.objects.select_related("actor").filter(pk=rows[-1]).first()
        row = trail_rows([action], user)[0] if action is not None else None
        if row is None or not row.may:
            return response
        if request.headers.get("HX-Request") == "true":
            response["HX-Trigger"] = json.dumps({"acted": offer_of(row)})
        elif response.status_code in (301, 302, 303) and not _offers_itself(response):
            _mark(request, row)
        return response


def offer_of(row: ActRow) -> dict[str, str]:
    """What a script needs for the button."""
    url = reverse("action-undo", args=[row.id])
    return {"text": row.text, "label": row.standing.label, "url": url, "key": secrets.token_urlsafe(16)}


def _offers_itself(response: HttpResponseBase) -> bool:
    """The review queue has its newest act with Undo on it, whoever comes by."""
    return response.headers.get("Location", "").partition("?")[0] == reverse("rule-list")


def _mark(request: HttpRequest, row: ActRow) -> None:
    """On the message that the view left, else on one of our own."""
    tag = f"{TAG}:{row.id}:{row.standing.label}"
    queued = getattr(messages.get_messages(request), "_queued_messages", [])
    mine = next((one for one in reversed(queued) if one.level <= messages.SUCCESS and not one.extra_tags), None)
    if mine is not None:
        mine.extra_tags = tag
    else:
        messages.success(request, row.text, extra_tags=tag)
