"""Every action on rules: its role, its key, an older revision, what it changes, and its undo."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test.utils import CaptureQueriesContext

from adaexplore_site.actions import registry, runner
from adaexplore_site.actions.action import UNDO, UNDONE
from adaexplore_site.actions.runner import Outdated
from adaexplore_site.activity.trail import trail_rows
from adaexplore_site.core.access import Role
from adaexplore_site.core.audit import ActionRefused, FieldsRefused
from adaexplore_site.core.models import AuditEntry
from memory.rules.models import Rule, Sighting
from memory.rules.services import RuleChanged
from tests.memory import decisions
from tests.memory.acting import do, standing
from tests.memory.rule_rows import card, fresh, many, person, rule, seen_by
from tests.pages import client_of

pytestmark = pytest.mark.django_db
API = "/api/v1/acts"
Scene = tuple[Rule | None, dict[str, Any]]  # the rule that it is done to, and the fields of the form


def proposed(**fields: Any) -> Scene:
    return rule(), fields


def approved(**fields: Any) -> Scene:
    row = rule()
    decisions.rule_approve(**card(row))
    return fresh(row), fields


def rejected() -> Scene:
    row = rule()
    decisions.rule_reject(reason="1", **card(row))
    return fresh(row), {}


def reworded() -> Scene:
    row = rule()
    decisions.rule_edit(text="Do not call tl.dot so.", **card(row))
    return fresh(row), {"number": 1}


def mergeable() -> Scene:
    return rule(seen=2), {"into": f"#{rule('Do not call tl.all.').pk}"}


def merged() -> Scene:
    row, fields = mergeable()
    assert row is not None
    decisions.rule_merge(into=int(fields["into"][1:]), **card(row))
    return fresh(row), {}


def splittable() -> Scene:
    row = rule(seen=3)
    return row, {"failure": sorted(seen_by(row))[:1], "text": "Do not call tl.dot twice."}


def batch() -> Scene:
    many(2)
    return None, {"act": "approve", "expected": 2}


SCENES: dict[str, Callable[[], Scene]] = {
    "rule.approve": proposed,
    "rule.reject": lambda: proposed(reason="2"),
    "rule.retire": lambda: approved(own_reason="Not true any more."),
    "rule.restore": rejected,
    "rule.defer": lambda: proposed(days=3),
    "rule.edit": lambda: proposed(text="Do not call tl.dot so.", why="shorter"),
    "rule.scope": lambda: proposed(arch="sm_90"),
    "rule.rollback": reworded,
    "rule.merge": mergeable,
    "rule.unmerge": merged,
    "rule.split": splittable,
    "rule.create": lambda: (None, {"text": "Do not call tl.all.", "family": "matmul"}),
    "rules.import": lambda: (None, {"file": b"Do not call tl.any.||3\n"}),
    "rules.bulk": batch,
}
ON_A_RULE = [name for name in SCENES if name not in ("rule.create", "rules.import", "rules.bulk")]
WORDING = ("rule.edit", "rule.scope", "rule.rollback", "rule.create")  # for operators, too


def asked(scene: Scene) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parts of the address, fields of the form)."""
    row, fields = scene
    return ({}, fields) if row is None else ({"rule_id": row.pk}, {"revision": row.revision, **fields})


def facts(row: Rule | None) -> list[Any]:
    """What the action may change: of its rule, or of all."""
    rules = Rule.objects.filter(pk=row.pk) if row is not None else Rule.objects.all()
    columns = ("pk", "state", "current", "merged_into", "reject_reason", "deferred_until", "decided_at")
    seen = Sighting.objects.filter(rule__in=rules).order_by("failure").values_list("rule", "failure")
    return [*rules.order_by("pk").values_list(*columns), *seen]


def everything() -> list[Any]:
    return [*facts(None), *Rule.objects.order_by("pk").values_list("revision"), *AuditEntry.objects.values_list("pk")]


def test_every_action_on_rules_is_looked_at_here():
    found = {action.name for action in registry.actions() if action.kind.name in ("rule", "rules")}
    assert found == {*SCENES, "rule.undo"}


@pytest.mark.parametrize("name", SCENES)
def test_another_role_is_refused_and_changes_nothing(name):
    where, fields = asked(SCENES[name]())
    before = everything()
    wrong = [person("vera", "viewer"), *([] if name in WORDING else [person("otto", "operator")])]
    for user in wrong:
        with pytest.raises(PermissionDenied, match="reviewer"):
            do(name, user, where, fields)
    assert everything() == before


@pytest.mark.parametrize("name", WORDING)
def test_operators_may_word_rules(name):
    where, fields = asked(SCENES[name]())
    assert do(name, person("otto", "operator"), where, fields).entry.verb == name


@pytest.mark.parametrize("name", SCENES)
def test_a_key_is_used_once(name):
    where, fields = asked(SCENES[name]())
    first = do(name, person(), where, fields)
    after = everything()
    again = do(name, person(), where, fields)
    assert (again.repeated, again.entry, everything()) == (True, first.entry, after)
    assert again.result.message == first.result.message != ""


@pytest.mark.parametrize("name", ON_A_RULE)
def test_an_older_revision_changes_nothing_in_the_form_and_in_if_match(name):
    row, fields = SCENES[name]()
    assert row is not None
    before = everything()
    with pytest.raises(RuleChanged):
        do(name, person(), {"rule_id": row.pk}, {**fields, "revision": row.revision + 1})
    with pytest.raises(Outdated) as told:
        do(name, person(), {"rule_id": row.pk}, {**fields, "revision": row.revision}, version=row.revision + 1)
    assert told.value.now == {"revision": row.revision, "state": row.state, "text": fresh(row).current.text}
    assert everything() == before
    assert do(name, person(), {"rule_id": row.pk}, {**fields, "revision": row.revision}, version=row.revision).entry


@pytest.mark.parametrize("name", SCENES)
def test_it_is_undone_once_and_by_a_reviewer_alone(name):
    scene = SCENES[name]()
    before = facts(scene[0])
    entry = do(name, person(), *asked(scene)).entry
    assert facts(scene[0]) != before and standing(entry) == UNDO
    with pytest.raises(PermissionDenied):
        runner.undo(entry, user=person("otto", "operator"))
    message = runner.undo(entry, user=person("rolf"), key="u").message
    assert message.startswith("Undone: ") and facts(scene[0]) == before and standing(entry) == UNDONE
    after = everything()
    runner.undo(entry, user=person("rolf"), key="u")
    with pytest.raises(ActionRefused, match="undone"):
        runner.undo(entry, user=person("rolf"), key="v")
    assert everything() == after


@pytest.mark.parametrize("name", ON_A_RULE)
def test_it_is_not_undone_below_a_later_action(name):
    row, fields = SCENES[name]()
    entry = do(name, person(), *asked((row, fields))).entry
    Rule.objects.filter(pk=row.pk).update(revision=row.revision + 2)
    before = everything()
    assert standing(entry).why_not == "changed since"
    with pytest.raises(ActionRefused, match="changed since"):
        runner.undo(entry, user=person("rolf"))
    assert everything() == before


def test_an_undo_takes_a_number_and_is_not_undone_itself():
    entry = do("rule.approve", person(), *asked(proposed())).entry
    with pytest.raises(PermissionDenied):
        do("rule.undo", person("otto", "operator"), {}, {"action": entry.pk}, key="u")
    undo = do("rule.undo", person(), {}, {"action": entry.pk}, key="u")
    assert undo.result.message == "Undone: approval." and Rule.objects.get().state == "proposed"
    assert standing(undo.entry).why_not == "do the action again instead"
    before = everything()
    assert do("rule.undo", person(), {}, {"action": entry.pk}, key="u").repeated
    for action in (entry.pk, undo.entry.pk, 10**6):
        with pytest.raises(ActionRefused):
            do("rule.undo", person(), {}, {"action": action}, key="v")
    with pytest.raises(ActionRefused):
        runner.undo(undo.entry, user=person())
    assert everything() == before


def test_parts_of_a_merge_name_what_to_undo_instead():
    row, fields = mergeable()
    do("rule.merge", person(), *asked((row, fields)))
    part = AuditEntry.objects.get(verb="rule.take_in")
    (shown,) = trail_rows([part], person())
    assert shown.text == f"Given the sightings of rule {row.pk}" and not shown.may
    assert shown.standing.why_not == "undo the merge of the other rule instead"


def test_the_activity_log_reads_a_page_in_a_constant_number_of_queries():
    def queries() -> int:
        entries = list(AuditEntry.objects.select_related("actor"))
        with CaptureQueriesContext(
            connection,
        ) as found:
            assert all(row.subject.url for row in trail_rows(entries, user))
        return len(found)

    user, one = person(), rule()
    decisions.rule_approve(**card(one))
    queries()  # the roles of the user are read once
    first = queries()
    for text in ("Do not call tl.all.", "Do not call tl.any.", "Do not call tl.max."):
        row = rule(text)
        decisions.rule_approve(**card(row))
        decisions.rule_retire(reason="1", **card(row))
    assert queries() == first


def test_a_program_sees_no_preview_and_decides_many_by_their_number():
    ids, reviewer = many(2), client_of("reviewer")
    body = json.dumps({"act": "approve", "expected": 2})
    answer = reviewer.post(f"{API}/rules.bulk", body, "application/json", headers={"X-CSRFToken": "x"})
    assert answer.status_code == 200 and answer.json()["said"] == ["2 rules approved at once."]
    assert set(Rule.objects.filter(pk__in=ids).values_list("state", flat=True)) == {"approved"}


@pytest.mark.parametrize(
    ("name", "fields", "field"),
    [
        ("rule.reject", {}, "__all__"),
        ("rule.edit", {"text": "Fix line 3 of candidate.py now."}, "text"),
        ("rule.edit", {"text": " "}, "text"),
        ("rule.scope", {"arch": "zzz"}, "__all__"),
        ("rule.merge", {"into": "x"}, "into"),
        ("rule.defer", {"days": 400}, "days"),
        ("rule.split", {"text": "Do not call tl.all."}, "failure"),
        ("rule.split", {"text": "Do not call tl.all.", "failure": ["x"]}, "failure"),
    ],
)
def test_a_wrong_field_is_named_and_changes_nothing(name, fields, field):
    row = rule(seen=2)
    before = everything()
    with pytest.raises(FieldsRefused) as told:
        do(name, person(), {"rule_id": row.pk}, {"revision": 0, **fields})
    assert field in told.value.fields and everything() == before


def test_scripts_get_wrong_fields_on_the_card_and_forms_get_their_page():
    row, reviewer = rule(), client_of("reviewer")
    sent = {"act": "edit", "revision": 0, "text": "Fix line 3 of candidate.py now."}
    script = reviewer.post(f"/rules/{row.pk}/act", sent, headers={"HX-Request": "true"})
    assert script.status_code == 422 and script.json()["refused"] in script.json()["card"].replace("&#x27;", "'")
    page = reviewer.post(f"/rules/{row.pk}/act", {**sent, "back": f"/rules/{row.pk}/"})
    html = page.content.decode()
    assert page.status_code == 422 and "Fix line 3 of candidate.py now." in html
    assert f'href="/rules/{row.pk}/">Back' in html and '<input type="hidden" name="act" value="edit">' in html


def test_an_undo_that_takes_the_rule_away_leads_to_the_list():
    reviewer = client_of("reviewer")
    made = reviewer.post("/rules/new", {"text": "Do not call tl.all.", "key": "k"})
    page, entry = made["Location"], AuditEntry.objects.get(verb="rule.create")
    undo = reviewer.post("/rules/undo", {"action": entry.pk, "back": page})
    assert undo["Location"] == "/rules/" and reviewer.get(page).status_code == 404


def test_an_operator_who_has_no_undo_is_told_what_was_done():
    row, operator = rule(), client_of(Role.OPERATOR)
    sent = {"act": "edit", "revision": 0, "text": "Do not call tl.dot so."}
    html = operator.post(f"/rules/{row.pk}/act", sent, follow=True).content.decode()
    assert html.count(f"Rule {row.pk} was edited.") == 1
