"""Tabs of Settings about members and tokens."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from adaexplore_site.accounts import services
from adaexplore_site.accounts.services import NEEDS, SCOPE_WORDS, token_rows
from adaexplore_site.core.access import Role, can, roles_of
from adaexplore_site.core.requests import SiteRequest
from adaexplore_site.settings_pages.views import tab_add

PERIODS = ((7, _("in a week")), (30, _("in 30 days")), (90, _("in 90 days")), (365, _("in a year")), ("", _("never")))


def _members(request: SiteRequest) -> dict[str, Any]:
    people = User.objects.prefetch_related("groups").order_by("-is_active", "username")
    return {
        "people": [(person, sorted(services.roles_held(person))) for person in people],
        "given": [role.value for role in Role if role is not Role.VIEWER],
        "admin": can(request.user, Role.ADMIN),
        "key": secrets.token_urlsafe(12),
        "link_hours": settings.PASSWORD_RESET_TIMEOUT // 3600,
    }


def _tokens(request: SiteRequest) -> dict[str, Any]:
    return {
        "tokens": token_rows(request.user, now=timezone.now()),
        "scopes": [(scope, words, NEEDS[scope] in roles_of(request.user)) for scope, words in SCOPE_WORDS.items()],
        "may": can(request.user, Role.OPERATOR) or can(request.user, Role.REVIEWER),
        "admin": can(request.user, Role.ADMIN),
        "periods": PERIODS,
        "typed_scopes": ["read"],
        "typed_days": "90",
        "key": secrets.token_urlsafe(12),
    }


tab_add("members", _("Members"), 2, _members)
tab_add("tokens", _("Tokens"), 3, _tokens)
