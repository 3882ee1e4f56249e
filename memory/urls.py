"""Addresses of rules: the review queue, the library, one rule, files."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from adaexplore_site.actions.views import action_view, actions_view
from memory.rules import views as rules

ACTS = (
    "approve", "reject", "retire", "restore", "defer", "edit", "scope", "rollback", "merge", "unmerge", "split",
)  # fmt: skip

urlpatterns: list[URLPattern | URLResolver] = [
    path("rules/", rules.rule_list, name="rule-list"),
    path("rules/cards", rules.rule_cards_more, name="rule-cards"),
    path("rules/new", rules.rule_new, name="rule-new"),
    path("rules/bulk", rules.rule_bulk, name="rule-bulk"),
    path("rules/undo", action_view("rule.undo"), name="rule-undo"),
    path("rules/import", action_view("rules.import"), name="rule-import"),
    path("rules/export", rules.rule_export, name="rule-export"),
    path("rules/<int:rule_id>/", rules.rule_detail, name="rule-detail"),
    path("rules/<int:rule_id>/act", actions_view("act", {act: f"rule.{act}" for act in ACTS}), name="rule-act"),
    path("rules/<int:rule_id>/hold", rules.rule_hold_card, name="rule-hold"),
]
