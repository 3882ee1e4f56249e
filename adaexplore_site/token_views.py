"""Settings, Tokens: issue one, see it once, revoke it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_POST

from adaexplore_site.access import Role, can
from adaexplore_site.audit import ActionRefused
from adaexplore_site.models import ApiToken
from adaexplore_site.requests import SiteRequest, form_key
from adaexplore_site.settings_views import tab_page
from adaexplore_site.tokens import token_issue, token_revoke


def issue(request: SiteRequest) -> HttpResponse:
    """A new token of one's own; the page shows its text, once. POST only."""
    _may(request)
    return _issue(request)


@require_POST
def _issue(request: SiteRequest) -> HttpResponse:
    name, days, scopes = request.POST.get("name", ""), request.POST.get("days", ""), request.POST.getlist("scope")
    try:
        token, text = token_issue(
            name=name, scopes=scopes, days=_days(days), user=request.user, now=timezone.now(), key=form_key(request)
        )
    except ActionRefused as error:
        typed: dict[str, Any] = {"typed": name[:60], "typed_scopes": scopes, "typed_days": days}
        return tab_page(request, "tokens", status=409, refused=str(error), **typed)
    return tab_page(request, "tokens", made=token, token_text=text)


def revoke(request: SiteRequest, token_id: int) -> HttpResponse:
    """End a token at once. POST only."""
    _may(request)
    return _revoke(request, token_id)


@require_POST
def _revoke(request: SiteRequest, token_id: int) -> HttpResponse:
    token = get_object_or_404(ApiToken, pk=token_id)
    try:
        token_revoke(token=token, user=request.user, now=timezone.now(), key=form_key(request))
    except ActionRefused as error:
        return tab_page(request, "tokens", status=409, refused=str(error))
    messages.success(request, f"The token {token.name} is revoked: whoever uses it is refused from now on.")
    return redirect("settings-tab", tab="tokens")


def _may(request: SiteRequest) -> None:
    if not (can(request.user, Role.OPERATOR) or can(request.user, Role.REVIEWER)):
        raise PermissionDenied("This needs the role 'operator' or 'reviewer'. Ask an admin to add it to your account.")


def _days(text: str) -> int | None:
    if not text.strip():
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        raise ActionRefused(f"Enter a whole number of days, not {text[:40]!r}.")
    return int(text)


urlpatterns = [
    path("settings/tokens/issue", issue, name="token-issue"),
    path("settings/tokens/<int:token_id>/revoke", revoke, name="token-revoke"),
]
