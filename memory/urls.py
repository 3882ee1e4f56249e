"""Addresses of rules: the review queue, the library, one rule, files."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from adaexplore_site.actions.views import action_routes
from memory.rules import views as rules

urlpatterns: list[URLPattern | URLResolver] = [
    path("rules/", rules.rule_list, name="rule-list"),
    path("rules/cards", rules.rule_cards_more, name="rule-cards"),
    path("rules/new", rules.rule_new, name="rule-new"),
    path("rules/bulk", rules.rule_bulk, name="rule-bulk"),
    path("rules/export", rules.rule_export, name="rule-export"),
    path("rules/<int:rule_id>/", rules.rule_detail, name="rule-detail"),
    path("rules/<int:rule_id>/hold", rules.rule_hold_card, name="rule-hold"),
    *action_routes("memory"),
]
