"""No edit goes around a reviewer's decision, and no two rules come to say the same."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from memory.prompting.scopes import Scope
from memory.rules.models import Rule
from tests.memory import decisions as acts
from tests.memory.decisions import rule_create, rule_merge, undo
from tests.memory.rule_rows import card, fresh, person, rule

pytestmark = pytest.mark.django_db
NOW = timezone.now()
OTHER = "Do not use tl.any in a kernel."
THIRD = "Do not use tl.all in a kernel."


@pytest.mark.parametrize("end", ["rejected", "retired"])
@pytest.mark.parametrize("role", ["operator", "reviewer"])
def test_a_closed_rule_is_not_edited_before_a_reviewer_proposes_it_again(end, role):
    row, rita, other = rule(), person(), person("otto", role)
    if end == "retired":
        acts.rule_approve(**card(row, rita))
        acts.rule_retire(reason="1", **card(row, rita))
    else:
        acts.rule_reject(reason="1", **card(row, rita))
    for act, given in [
        (acts.rule_edit, {"text": OTHER}),
        (acts.rule_scope, {"scope": Scope(arch="sm_90")}),
    ]:
        with pytest.raises(ActionRefused, match=f"is {end} and cannot be edited. A reviewer must propose it again"):
            act(**given, **card(row, other))
    assert (fresh(row).state, row.versions.count()) == (end, 1)
    acts.rule_restore(**card(row, rita))
    acts.rule_edit(text=OTHER, **card(row, other))
    assert (fresh(row).state, fresh(row).current.text) == ("proposed", OTHER)


def test_a_roll_back_does_not_bring_a_rejected_rule_back():
    row = rule()
    acts.rule_edit(text=OTHER, **card(row))
    acts.rule_reject(reason="1", **card(row))
    with pytest.raises(ActionRefused, match="cannot be edited"):
        acts.rule_rollback(number=1, **card(row, person("otto", "operator")))
    assert fresh(row).state == "rejected"


@pytest.mark.parametrize("state", ["proposed", "approved", "rejected"])
def test_an_edit_to_the_words_of_another_rule_is_refused_and_names_it(state):
    row, other = rule(), rule(OTHER)
    Rule.objects.filter(pk=other.pk).update(state=state)
    with pytest.raises(ActionRefused, match=f"Rule {other.pk} says the same") as told:
        acts.rule_edit(text=OTHER.upper().replace("TL.ANY", "tl.any"), **card(row))
    assert told.value.see == (f"Open rule {other.pk}", f"/rules/{other.pk}/") and row.versions.count() == 1


def test_so_is_a_roll_back_and_the_undo_of_an_edit():
    row = rule(OTHER)
    edit = acts.rule_edit(text=THIRD, **card(row))
    other = rule(OTHER)
    with pytest.raises(ActionRefused, match=f"Rule {other.pk}"):
        acts.rule_rollback(number=1, **card(row))
    with pytest.raises(ActionRefused, match=f"Rule {other.pk}"):
        undo(edit.pk, user=None)
    assert (fresh(row).current.text, row.versions.count()) == (THIRD, 2)


def test_words_of_a_rule_that_was_merged_are_those_of_its_successor():
    row, part, into = rule(), rule(OTHER), rule(THIRD)
    rule_merge(into=into.pk, **card(part))
    with pytest.raises(ActionRefused, match=f"Rule {into.pk}"):
        acts.rule_edit(text=OTHER, **card(row))
    acts.rule_edit(text=OTHER, **card(into))  # its own part's
    assert fresh(into).current.text == OTHER


def test_equal_words_for_other_places_may_stand_until_the_scopes_meet():
    old, new = Scope(triton=">=3.4,<3.5"), Scope(triton=">=3.7,<3.8")
    row = Rule.objects.get(pk=rule_create(text=THIRD, scope=old, user=None).object_id)
    other = Rule.objects.get(pk=rule_create(text=OTHER, scope=new, user=None).object_id)
    acts.rule_edit(text=OTHER, **card(row))
    with pytest.raises(ActionRefused, match=f"Rule {other.pk}"):
        acts.rule_scope(scope=Scope(), **card(row))
    Rule.objects.filter(pk=other.pk).update(current=row.versions.last())  # twins of old, as files bring them
    acts.rule_scope(scope=Scope(triton=">=3.4,<3.5", arch="sm_90"), **card(row))
    acts.rule_edit(text=THIRD, **card(row))


def test_the_refusal_has_a_link_on_every_page(client):
    row, other = rule(), rule(OTHER)
    client.force_login(person())
    link = f'<a href="/rules/{other.pk}/">Open rule {other.pk}</a>'
    sent = {"act": "edit", "text": OTHER, "revision": 0}
    page = client.post(reverse("rule-act", args=[row.pk]), sent)
    script = client.post(reverse("rule-act", args=[row.pk]), sent, headers={"hx-request": "true"})
    new = client.post(reverse("rule-new"), {"text": OTHER})
    assert [answer.status_code for answer in (page, script, new)] == [409] * 3
    assert link in page.content.decode() and link in script.json()["card"] and link in new.content.decode()


def test_a_closed_rule_s_page_offers_no_edit(client):
    row = rule()
    client.force_login(person())
    assert 'value="edit"' in client.get(f"/rules/{row.pk}/").content.decode()
    acts.rule_reject(reason="1", **card(row))
    page = client.get(f"/rules/{row.pk}/").content.decode()
    assert 'value="edit"' not in page and "Propose again" in page
