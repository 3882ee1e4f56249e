"""Addresses of rules: the review queue, the library, one rule, files."""

from __future__ import annotations

from django.urls import path

from memory.views import rule_acts, rule_bulk, rule_files, rules

urlpatterns = [
    path("", rules.rule_list, name="rule-list"),
    path("cards", rules.rule_cards_more, name="rule-cards"),
    path("new", rule_acts.rule_new, name="rule-new"),
    path("bulk", rule_bulk.rule_bulk, name="rule-bulk"),
    path("undo", rule_acts.rule_undo_act, name="rule-undo"),
    path("import", rule_files.rule_import, name="rule-import"),
    path("export", rule_files.rule_export, name="rule-export"),
    path("<int:rule_id>/", rules.rule_detail, name="rule-detail"),
    path("<int:rule_id>/act", rule_acts.rule_act_do, name="rule-act"),
    path("<int:rule_id>/hold", rule_acts.rule_hold_card, name="rule-hold"),
]
