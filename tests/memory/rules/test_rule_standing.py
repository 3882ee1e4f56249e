"""Which entries about a rule can be undone: those that left it as it is now, by way of other undos too."""

from __future__ import annotations

import pytest

from adaexplore_site.actions.action import CHANGED, UNDO, UNDONE
from memory.rules.queries import RULE
from tests.memory.decisions import rule_approve, rule_edit, undo
from tests.memory.rule_rows import card, person, rule

pytestmark = pytest.mark.django_db


def test_an_entry_can_be_undone_again_once_what_came_after_it_was_undone():
    row, rita = rule(), person()
    approved = rule_approve(**card(row, rita))
    edited = rule_edit(text="Do not call tl.any.", **card(row, rita))
    entries = [approved, edited]

    def standings():
        loaded = RULE.load(entries)
        return [loaded.standing(entry) for entry in entries]

    assert standings() == [CHANGED, UNDO]
    undo(edited.pk, user=rita)
    assert standings() == [UNDO, UNDONE]
    undo(approved.pk, user=rita)
    assert standings() == [UNDONE, UNDONE]
