"""Settings: your own, members, tokens, webhooks, who proposes kernels at what price, what is allowed here."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import connection
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from adaexplore_site import members
from adaexplore_site.access import Role, can, role_required, roles_of
from adaexplore_site.audit import ActionRefused
from adaexplore_site.llm import endpoint_from_settings
from adaexplore_site.requests import SiteRequest, form_key
from adaexplore_site.tokens import NEEDS, SCOPE_WORDS, token_rows
from adaexplore_site.webhooks.desk import hook_rows
from adaexplore_site.webhooks.guarding import private_allowed
from adaexplore_site.webhooks.outbox import EVENTS
from adaexplore_site.webhooks.sending import LIMIT_S, MOST
from search import proposers
from search.budget.prices import BadPrices, Price
from search.pricing import price_of, price_table

TABS = {
    "you": "You",
    "members": "Members",
    "tokens": "Tokens",
    "webhooks": "Webhooks",
    "providers": "Providers",
    "installation": "This installation",
}


@never_cache
@require_safe
def settings_page(request: SiteRequest, tab: str = "you") -> HttpResponse:
    """One tab."""
    return tab_page(request, tab)


def tab_page(request: SiteRequest, tab: str, *, status: int = 200, **extra: Any) -> HttpResponse:
    """One tab; `extra` goes into its template."""
    if tab not in TABS:
        raise Http404("There is no such tab of the settings.")
    context: dict[str, Any] = {"tab": tab, "tabs": TABS.items(), "title": TABS[tab], **_TABS[tab](request), **extra}
    return render(request, f"settings/{tab}.html", context, status=status)


def _you(request: SiteRequest) -> dict[str, Any]:
    return {"mine": sorted(role.value for role in roles_of(request.user))}


def _members(request: SiteRequest) -> dict[str, Any]:
    people = User.objects.prefetch_related("groups").order_by("-is_active", "username")
    return {
        "people": [(person, sorted(members.roles_held(person))) for person in people],
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
        "periods": ((7, "in a week"), (30, "in 30 days"), (90, "in 90 days"), (365, "in a year"), ("", "never")),
        "typed_scopes": ["read"],
        "typed_days": "90",
        "key": secrets.token_urlsafe(12),
    }


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
        "newest": max((row.noted or row.valid_from.isoformat() for row in rows), default=""),
    }


def _installation(request: SiteRequest) -> dict[str, Any]:
    """What the environment has set: (what, value, variable)."""
    rows = [
        ("Largest problem", f"{settings.MAX_PROBLEM_BYTES >> 10} KiB", "MAX_PROBLEM_KIB"),
        ("A model's reply may take", f"{settings.LLM_TIMEOUT_S} s", "LLM_TIMEOUT_S"),
        ("GPU that the interpreter models", settings.JUDGE_TARGET, "JUDGE_TARGET"),
        ("Least sandbox", settings.JUDGE_MIN_SANDBOX, "JUDGE_MIN_SANDBOX"),
        ("A device is quarantined above a noise of", f"{settings.JUDGE_NOISE_FLOOR:.1%}", "JUDGE_NOISE_PERCENT"),
        ("max-autotune is timed, too", "yes" if settings.JUDGE_MAX_AUTOTUNE else "no", "JUDGE_MAX_AUTOTUNE"),
        ("Webhooks into private networks", "yes" if private_allowed() else "no", "ADAEXPLORE_WEBHOOK_PRIVATE"),
        ("Database", connection.vendor, "DATABASE_URL"),
    ]
    if can(request.user, Role.ADMIN):
        rows.append(("Data folder", str(settings.DATA_DIR), "ADAEXPLORE_DATA"))
    return {
        "rows": rows,
        "attempts": settings.AXES_FAILURE_LIMIT,
        "minutes": round(settings.AXES_COOLOFF_TIME * 60),
    }


_TABS = {
    "you": _you,
    "members": _members,
    "tokens": _tokens,
    "webhooks": _webhooks,
    "providers": _providers,
    "installation": _installation,
}


@role_required(Role.ADMIN)
@require_POST
def invite(request: SiteRequest) -> HttpResponse:
    """A new account; the page shows its link, once."""
    name = request.POST.get("name", "").strip()
    try:
        member, link = members.member_invite(
            name=name, roles=request.POST.getlist("role"), user=request.user, key=form_key(request)
        )
    except ActionRefused as error:
        return tab_page(request, "members", status=409, refused=str(error), typed=name[:60])
    return tab_page(request, "members", made=member, link=request.build_absolute_uri(link))


@role_required(Role.ADMIN)
@require_POST
def link(request: SiteRequest, user_id: int) -> HttpResponse:
    """A fresh sign-in link, shown once."""
    member = get_object_or_404(User, pk=user_id)
    try:
        made = members.member_link(member=member, user=request.user, key=form_key(request))
    except ActionRefused as error:
        return tab_page(request, "members", status=409, refused=str(error))
    return tab_page(request, "members", made=member, link=request.build_absolute_uri(made))


@role_required(Role.ADMIN)
@require_POST
def roles(request: SiteRequest, user_id: int) -> HttpResponse:
    """Give the member the roles that are ticked."""
    member = get_object_or_404(User, pk=user_id)
    try:
        members.member_roles(
            member=member, roles=request.POST.getlist("role"), user=request.user, key=form_key(request)
        )
    except ActionRefused as error:
        return tab_page(request, "members", status=409, refused=str(error))
    messages.success(request, f"The roles of {member.username} are set.")
    return redirect("settings-tab", tab="members")


@role_required(Role.ADMIN)
@require_POST
def access(request: SiteRequest, user_id: int) -> HttpResponse:
    """Switch the member on (`active` is not empty) or off."""
    member, active = get_object_or_404(User, pk=user_id), bool(request.POST.get("active"))
    try:
        members.member_access(member=member, active=active, user=request.user, key=form_key(request))
    except ActionRefused as error:
        return tab_page(request, "members", status=409, refused=str(error))
    messages.success(request, f"{member.username} {'can sign in again' if active else 'is switched off'}.")
    return redirect("settings-tab", tab="members")


urlpatterns = [
    path("settings/", settings_page, name="settings"),
    path("settings/members/invite", invite, name="member-invite"),
    path("settings/members/<int:user_id>/roles", roles, name="member-roles"),
    path("settings/members/<int:user_id>/link", link, name="member-link"),
    path("settings/members/<int:user_id>/access", access, name="member-access"),
    path("settings/<slug:tab>/", settings_page, name="settings-tab"),
]
