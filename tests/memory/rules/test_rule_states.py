"""The table of states: each state has an entry, and pages offer what the actions take."""

from __future__ import annotations

import pytest
from django.db import transaction

from adaexplore_site.core.audit import ActionRefused
from memory.rules.models import STATES, Rule
from tests.memory.acting import act
from tests.memory.rule_rows import card, person, rule

pytestmark = pytest.mark.django_db
GIVEN = {
    "edit": {"text": "Do not use tl.any in a kernel."},
    "scope": {"arch": "sm_90"},
    "rollback": {"number": 1},
    "reject": {"reason": "1"},
    "retire": {"reason": "2"},
    "split": {"text": "Do not use tl.all in a kernel.", "failure": [0]},
}
IN_DOUBT = [("approved", "It may harm.")]
FIRST = {"rollback", "split"}  # refused on this rule for another reason: it has one version and no sightings


def test_every_state_has_an_entry():
    assert set(STATES) == set(Rule.State.values)


@pytest.mark.parametrize(("state", "doubt"), [*((state, "") for state in STATES), *IN_DOUBT])
def test_an_action_is_possible_where_the_state_offers_it(state, doubt):
    row, other, rita = rule(), rule("Do not use tl.dot on integers."), person()
    Rule.objects.filter(pk=row.pk).update(
        state=state, recheck=doubt, merged_into=other if state == "merged" else None, reject_reason="Too vague"
    )
    row.refresh_from_db()
    possible = set()
    for name in {name for info in STATES.values() for name in (*info.allows, *info.allows_in_doubt)}:
        given = GIVEN.get(name, {"into": other.pk} if name == "merge" else {})
        with transaction.atomic():
            try:
                done = act(f"rule.{name}", where={"rule_id": row.pk}, **given, **card(row, rita))
                possible |= {name} if done is not None else set()
            except ActionRefused:
                pass
            transaction.set_rollback(True)
    assert possible | FIRST == set(row.offers) | FIRST


def test_a_refusal_for_a_merged_rule_leads_to_the_other_one(client):
    row, other = rule(), rule("Do not use tl.dot on integers.")
    Rule.objects.filter(pk=row.pk).update(state="merged", merged_into=other)
    with pytest.raises(ActionRefused) as refusal:
        act("rule.merge", where={"rule_id": row.pk}, into=row.pk + other.pk, **card(row, person()))
    assert refusal.value.see == (f"Open rule {other.pk}", f"/rules/{other.pk}/")
    client.force_login(person())
    page = client.post(f"/rules/{row.pk}/act", {"act": "split", **GIVEN["split"], "revision": 0})
    assert page.status_code == 409
    assert f'<a href="/rules/{other.pk}/">Open rule {other.pk}</a>' in page.content.decode()
