"""An act that sets what holds already succeeds and writes nothing: no audit row, no event, and the page says so."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from adaexplore_site.actions import registry
from adaexplore_site.core.audit import NOTHING
from adaexplore_site.core.models import AuditEntry
from memory.rules.models import Rule
from search.ledger.models import ModelPrice
from search.records.models import RunEvent
from tests import pages
from tests.site.actions.ready import ADDS, ELSEWHERE, READY, SETS

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Client:
    User.objects.create_superuser("root")
    client = Client()
    client.force_login(User.objects.get(), backend=pages.BACKEND)
    return client


def test_of_every_act_it_is_decided_whether_it_sets_or_adds():
    assert READY.keys() | ELSEWHERE == {action.name for action in registry.actions()}
    assert not READY.keys() & ELSEWHERE and not SETS.keys() & ADDS.keys()


def written() -> tuple[int, int, int, list[object]]:
    rules = list(Rule.objects.order_by("pk").values_list("revision", "current__number"))
    return AuditEntry.objects.count(), RunEvent.objects.count(), ModelPrice.objects.count(), rules


@pytest.mark.parametrize("act", SETS)
def test_a_second_time_it_writes_nothing_and_says_so(act, admin):
    where, fields = SETS[act]()
    action, said = registry.action(act), []

    def post(key: str) -> tuple[int, int, int, list[object]]:
        now: dict[str, object] = {}
        if "rule_id" in where:  # its page shows the message; the list shows the last action instead
            now = {"revision": Rule.objects.get(pk=where["rule_id"]).revision, "back": f"/rules/{where['rule_id']}/"}
        form = {**action.sends, **fields, **now, "key": key}
        answer = admin.post(reverse(action.route, kwargs=where), form)
        assert answer.status_code == 302, answer.content.decode()[-2000:]
        said.append([str(one) for one in get_messages(answer.wsgi_request)][-1])
        return written()

    before = written()
    first = post("first")
    assert (first != before, AuditEntry.objects.filter(verb=action.verb or action.name).exists()) == (True, True)
    assert post("second") == first
    assert said[0] != NOTHING and said[1] == NOTHING
