"""Undo as an action: it takes back what an entry of the audit log says."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions import runner
from adaexplore_site.actions.action import Action, Call, Kind, Result
from adaexplore_site.actions.registry import register
from adaexplore_site.activity.trail import chosen_of, trail_rows
from adaexplore_site.activity.views import activity_page
from adaexplore_site.core.access import Role, can
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.requests import SiteRequest


class EntryKind(Kind):
    name, noun = "action", _("entry in the activity log")

    def objects(self) -> QuerySet[AuditEntry]:
        return AuditEntry.objects.select_related("actor")


@register
class UndoEntry(Action):
    """Take an action back, whatever it was done to. The inverse is audited under its own name."""

    kind = EntryKind()
    name, label, done = "action.undo", _("Undo an action"), _("Undone")
    takes, route, path = ("action_id",), "action-undo", "activity/<int:action_id>/undo"
    own_entry = False
    irreversible = _("do the action again")

    def may(self, user: User) -> Role | None:
        """Which role is needed is known with the entry; somebody who only reads undoes nothing."""
        return None if any(can(user, role) for role in Role if role is not Role.VIEWER) else Role.OPERATOR

    def run(self, target: AuditEntry, data: dict[str, Any], call: Call) -> Result:
        assert call.user is not None
        result = runner.undo(target, user=call.user, key=call.key)
        text = str(trail_rows([target])[0].text).rstrip(".")
        return Result(gettext("Undone: %(what)s.") % {"what": text}, then=result.then)

    def home(self, target: AuditEntry) -> str:
        return f"{reverse('activity')}#act-{target.pk}"

    def panel(self, request: SiteRequest, target: AuditEntry, **context: Any) -> HttpResponse | None:
        """A sentence for scripts; for forms the list again as it was asked for, with why it cannot be undone."""
        if request.htmx:
            if "refused" in context:
                return JsonResponse({"refused": context["refused"]}, status=409)
            return JsonResponse({"said": context["done"]})
        if "refused" not in context:
            return None
        query = dict(parse_qsl(request.POST.get("query", "")[:400].removeprefix("?")))
        return activity_page(request, chosen_of(query), status=409, refused=context["refused"])
