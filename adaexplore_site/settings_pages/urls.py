"""Addresses of Settings: the tabs, and the forms on them."""

from __future__ import annotations

from django.urls import path

from adaexplore_site.actions.views import action_view, actions_view
from adaexplore_site.settings_pages import views

_MEMBER, _HOOK = "settings/members/<int:user_id>", "settings/webhooks/<int:webhook_id>"

urlpatterns = [
    path("settings/", views.settings_page, name="settings"),
    path("settings/members/invite", action_view("member.invite"), name="member-invite"),
    path(f"{_MEMBER}/roles", action_view("member.roles"), name="member-roles"),
    path(f"{_MEMBER}/link", action_view("member.link"), name="member-link"),
    path(f"{_MEMBER}/access", actions_view("active", {"1": "member.on", "": "member.off"}), name="member-access"),
    path("settings/tokens/issue", action_view("token.issue"), name="token-issue"),
    path("settings/tokens/<int:token_id>/revoke", action_view("token.revoke"), name="token-revoke"),
    path("settings/webhooks/add", action_view("webhook.add"), name="webhook-add"),
    path(f"{_HOOK}/switch", actions_view("on", {"1": "webhook.on", "": "webhook.off"}), name="webhook-switch"),
    path(f"{_HOOK}/test", action_view("webhook.test"), name="webhook-test"),
    path(f"{_HOOK}/remove", action_view("webhook.remove"), name="webhook-remove"),
    path("settings/<slug:tab>/", views.settings_page, name="settings-tab"),
]
