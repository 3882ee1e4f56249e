"""Settings: your own, members, tokens, webhooks, who proposes kernels at what price, what is allowed here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import connection
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core import env
from adaexplore_site.core.access import Role, can, roles_of
from adaexplore_site.core.llm import endpoint_from_settings
from adaexplore_site.core.requests import SiteRequest
from search import proposers
from search.ledger.prices import RELEASED, BadPrices, Price, price_of, price_table, source

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


@never_cache
@require_safe
def settings_page(request: SiteRequest, tab: str = "you") -> HttpResponse:
    """One tab."""
    return tab_page(request, tab)


def tab_page(request: SiteRequest, tab: str, *, status: int = 200, **extra: Any) -> HttpResponse:
    """One tab; `extra` goes into its template."""
    found = TABS.get(tab)
    if found is None:
        raise Http404(gettext("There is no such tab of the settings."))
    tabs = [(one.name, one.title) for one in sorted(TABS.values(), key=lambda one: one.place)]
    context: dict[str, Any] = {"tab": tab, "tabs": tabs, "title": found.title, **found.context(request), **extra}
    return render(request, f"settings/{tab}.html", context, status=status)


@dataclass(frozen=True)
class Tab:
    """One tab of Settings. `place` orders the tabs; `context` gives the facts of its template."""

    name: str
    title: StrOrPromise
    place: int
    context: Callable[[SiteRequest], dict[str, Any]]


TABS: dict[str, Tab] = {}


def tab_add(name: str, title: StrOrPromise, place: int, context: Callable[[SiteRequest], dict[str, Any]]) -> None:
    """Add a tab. Each room adds its own."""
    TABS[name] = Tab(name, title, place, context)


def _you(request: SiteRequest) -> dict[str, Any]:
    return {"mine": sorted(role.value for role in roles_of(request.user))}


def _providers(request: SiteRequest) -> dict[str, Any]:
    endpoint = endpoint_from_settings()
    price, broken, rows = None, "", list[Price]()
    try:
        rows = list(price_table().rows)
        price = price_of(model=endpoint.model, on=timezone.now().date()) if endpoint.model else None
    except BadPrices as error:
        broken = str(error)
    return {
        "choices": proposers.available(),
        "default": proposers.default_name(),
        "endpoint": endpoint,
        "missing": endpoint.missing(),
        "key_set": bool(endpoint.api_key),
        "price": price,
        "broken": broken,
        "price_rows": len(rows),
        "price_file": bool(settings.LLM_PRICES),
        "price_list": source(),
        "listed_on": RELEASED,
    }


def _installation(request: SiteRequest) -> dict[str, Any]:
    """What the environment has set: (what, value, variable)."""
    answers = {True: gettext("yes"), False: gettext("no")}
    private = env.flag("ADAEXPLORE_WEBHOOK_PRIVATE")
    rows = [
        (_("Largest problem"), f"{settings.MAX_PROBLEM_BYTES >> 10} KiB", "MAX_PROBLEM_KIB"),
        (_("Requests answered at once"), str(settings.WEB_REQUESTS), "WEB_REQUESTS"),
        (_("A model's reply may take"), f"{settings.LLM_TIMEOUT_S} s", "LLM_TIMEOUT_S"),
        (_("GPU that the interpreter models"), settings.JUDGE_TARGET, "JUDGE_TARGET"),
        (_("Least sandbox"), settings.JUDGE_MIN_SANDBOX, "JUDGE_MIN_SANDBOX"),
        (_("A device is quarantined above a noise of"), f"{settings.JUDGE_NOISE_FLOOR:.1%}", "JUDGE_NOISE_PERCENT"),
        (_("max-autotune is timed, too"), answers[settings.JUDGE_MAX_AUTOTUNE], "JUDGE_MAX_AUTOTUNE"),
        (_("Webhooks into private networks"), answers[private], "ADAEXPLORE_WEBHOOK_PRIVATE"),
        (_("Database"), connection.vendor, "DATABASE_URL"),
    ]
    if can(request.user, Role.ADMIN):
        rows.append((_("Data folder"), str(settings.DATA_DIR), "ADAEXPLORE_DATA"))
        rows.append((_("Folder of jobs for other machines"), settings.JUDGE_FOLDER or gettext("none"), "JUDGE_FOLDER"))
    return {
        "rows": rows,
        "attempts": settings.AXES_FAILURE_LIMIT,
        "minutes": round(settings.AXES_COOLOFF_TIME * 60),
    }


tab_add("you", _("You"), 1, _you)
tab_add("providers", _("Providers"), 5, _providers)
tab_add("installation", _("This installation"), 6, _installation)
