"""After a form that acts, the next page offers to undo it; scripts get the same as an event."""

from __future__ import annotations

import json
import re

import pytest

from adaexplore_site.core.models import AuditEntry
from search.algorithm.steering import FREE
from search.records.log import steering_of
from tests.pages import client_of, full_run

pytestmark = pytest.mark.django_db
PIN = {"act": "pin", "number": "1", "quota": "4", "panel": "1", "key": "k"}


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr("search.records.queue.send", lambda follow_ups: None)
    return full_run()


def test_the_page_after_an_act_offers_to_undo_it_and_leads_back(run):
    operator = client_of("operator")
    html = operator.post(f"/s/{run.pk}/steer", {**PIN, "back": f"/s/{run.pk}/n/1/"}, follow=True).content.decode()
    toast = re.search(r'<div class="notice notice-success undo-toast".*?</div>', html, re.S)
    assert (
        toast and "Pinned." in toast[0] and f'action="/activity/{AuditEntry.objects.get(key="k").pk}/undo"' in toast[0]
    )
    back = re.search(r'name="back" value="([^"]+)"', toast[0])[1]
    answer = operator.post(f"/activity/{AuditEntry.objects.get(key='k').pk}/undo", {"key": "u", "back": back})
    assert answer["Location"] == f"/s/{run.pk}/n/1/" and steering_of(run.pk).effects == FREE.effects
    assert "undo-toast" not in operator.get(f"/s/{run.pk}/n/2/?again").content.decode()


def test_a_script_is_told_what_to_undo_and_gets_a_sentence_back(run):
    operator = client_of("operator")
    answer = operator.post(f"/s/{run.pk}/steer", PIN, headers={"HX-Request": "true"})
    offer = json.loads(answer["HX-Trigger-After-Swap"])["acted"]
    assert offer["label"] == "Undo" and "is pinned" in offer["text"]
    for status, word in ((200, "said"), (409, "refused")):
        done = operator.post(offer["url"], {"key": f"{word}"}, headers={"HX-Request": "true"})
        assert done.status_code == status and word in done.json()


def test_nothing_is_offered_for_what_cannot_be_undone_or_was_refused(run):
    operator = client_of("operator")
    refused = operator.post(f"/s/{run.pk}/steer", {**PIN, "quota": "none"}, headers={"HX-Request": "true"})
    assert refused.status_code == 422 and "HX-Trigger-After-Swap" not in refused
    act = {"act": "undo", "seq": "1", "panel": "1"}
    operator.post(f"/s/{run.pk}/steer", PIN)
    act["seq"] = str(AuditEntry.objects.get(key="k").after["seq"])
    assert "HX-Trigger-After-Swap" not in operator.post(f"/s/{run.pk}/steer", act, headers={"HX-Request": "true"})


def test_undo_never_leads_to_another_site(run):
    operator = client_of("operator")
    operator.post(f"/s/{run.pk}/steer", PIN)
    done = AuditEntry.objects.get(key="k")
    answer = operator.post(f"/activity/{done.pk}/undo", {"back": "//elsewhere.example/", "key": "u"})
    assert answer["Location"].startswith("/activity/")
