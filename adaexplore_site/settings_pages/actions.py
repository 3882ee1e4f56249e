"""What actions that are offered on a tab of Settings share."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse
from django.urls import reverse

from adaexplore_site.actions.action import Action
from adaexplore_site.core.access import Role
from adaexplore_site.core.requests import SiteRequest
from adaexplore_site.settings_pages.views import tab_page


class SettingsAction(Action):
    """An action of one tab. The tab shows refusals, and what is shown only once."""

    tab: ClassVar[str]
    role = Role.ADMIN

    def home(self, target: Any) -> str:
        return reverse("settings-tab", args=[self.tab])

    def panel(self, request: SiteRequest, target: Any, **context: Any) -> HttpResponse | None:
        status = context.pop("status", 200)
        return tab_page(request, self.tab, status=status, made=target, **context)
