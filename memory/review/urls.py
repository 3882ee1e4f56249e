"""Addresses of rules: the review queue, the library, one rule, files."""

from __future__ import annotations

from django.urls import path

from adaexplore_site.actions.views import action_view, actions_view
from memory.review import action_views as rule_acts
from memory.review import bulk_views as rule_bulk
from memory.review import file_views as rule_files
from memory.review import views as rules

ACTS = (
    "approve", "reject", "retire", "restore", "defer", "edit", "scope", "rollback", "merge", "unmerge", "split",
)  # fmt: skip

urlpatterns = [
    path("", rules.rule_list, name="rule-list"),
    path("cards", rules.rule_cards_more, name="rule-cards"),
    path("new", rule_acts.rule_new, name="rule-new"),
    path("bulk", rule_bulk.rule_bulk, name="rule-bulk"),
    path("undo", action_view("rule.undo"), name="rule-undo"),
    path("import", action_view("rules.import"), name="rule-import"),
    path("export", rule_files.rule_export, name="rule-export"),
    path("<int:rule_id>/", rules.rule_detail, name="rule-detail"),
    path("<int:rule_id>/act", actions_view("act", {act: f"rule.{act}" for act in ACTS}), name="rule-act"),
    path("<int:rule_id>/hold", rule_acts.rule_hold_card, name="rule-hold"),
]
