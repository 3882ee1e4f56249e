"""The tab of Settings about webhooks."""

from __future__ import annotations

import secrets
from typing import Any

from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.access import Role, can
from adaexplore_site.core.outbox import EVENTS
from adaexplore_site.core.requests import SiteRequest
from adaexplore_site.settings_pages.views import tab_add
from adaexplore_site.webhooks.services import LIMIT_S, MOST, hook_rows, private_allowed


def _webhooks(request: SiteRequest) -> dict[str, Any]:
    return {
        "hooks": hook_rows(),
        "events": EVENTS.items(),
        "typed_events": list(EVENTS)[:2],
        "admin": can(request.user, Role.ADMIN),
        "private": private_allowed(),
        "most": MOST,
        "limit_s": round(LIMIT_S),
        "key": secrets.token_urlsafe(12),
    }


tab_add("webhooks", _("Webhooks"), 4, _webhooks)
