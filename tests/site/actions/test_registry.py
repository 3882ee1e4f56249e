"""The registry of acts and places: complete, true to the routes, and what navigation, help and palette are made of."""

from __future__ import annotations

import json
import re

import pytest
from django.urls import reverse

from adaexplore_site.actions.action import Action, Kind, Recorded
from adaexplore_site.actions.registry import actions, register
from adaexplore_site.core.access import Role
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.palette.commands import PLACES, VIEW_KEYS, address
from judge.problems.services import problem_upload
from search.batches.models import Campaign
from tests.pages import addresses, client_of, full_run
from tests.search.makers import make_device

pytestmark = pytest.mark.django_db

NO_ACTIONS = {  # routes that take a POST and are no action, each with the reason
    "sign-in": "a session begins: nothing of the product changes",
    "sign-out": "a session ends",
    "notice-seen": "moves a person's own mark: nothing of the product changes",
    "problem-preflight": "asks the judge to look at a problem; whoever opens a new search does so, too",
    "rule-hold": "a claim of one minute on a card, which ends by itself",
}


def test_every_route_that_takes_a_post_is_in_the_table_or_explained():
    admin = client_of("admin")
    known = {act.route for act in actions()} | NO_ACTIONS.keys()
    for one in addresses(full_run()):
        answer = admin.generic("TRACE", one.path)
        assert answer.status_code == 405, f"{one.name} does not say which methods it takes"
        if "POST" in answer["Allow"]:
            assert one.name in known, f"{one.name} changes something: make it an action"
            admin = client_of("admin", f"admin of {one.name}") if one.name == "sign-out" else admin


def test_every_entry_leads_somewhere():
    for act in actions():
        assert reverse(act.route, kwargs=dict.fromkeys(act.takes, 1)), act.name
    for place in PLACES:
        assert address(place.route), place.id
    assert all(reasons for reasons in NO_ACTIONS.values())


def test_every_action_can_be_undone_or_says_why_not():
    known = {action.name for action in actions()}
    for action in actions():
        assert not action.inverse or action.inverse in known, action.name
        own_undo = type(action).undo is not Recorded.undo
        assert bool(action.irreversible) != (own_undo or bool(action.inverse)), action.name
        assert action.__doc__ and action.label[0].isupper(), action.name


def test_an_action_that_says_neither_how_it_is_undone_nor_why_not_is_no_action():
    class Odd(Action):
        name, label, kind = "odd.one", "Do it", Kind()

    with pytest.raises(ValueError, match="say how it is undone"):
        register(Odd)
    Odd.irreversible, Odd.key = "it is gone", "o"
    with pytest.raises(ValueError, match="needs the pages"):
        register(Odd)
    assert "odd.one" not in {action.name for action in actions()}


def test_an_entry_of_an_unknown_verb_is_shown_and_not_undone():
    entry = AuditEntry.objects.create(verb="old.thing", object_type="relic", object_id="7")
    html = client_of("admin").get("/activity/").content.decode()
    assert "old thing" in html and "does not know the action" in html
    answer = client_of("admin", "other").post(f"/activity/{entry.pk}/undo", {"key": "k"})
    assert answer.status_code == 409 and AuditEntry.objects.count() == 1


def test_no_two_keys_of_a_page_are_the_same():
    pages = {page for act in actions() for page in act.pages} | {page for key in VIEW_KEYS for page in key.pages}
    everywhere = [key.key for key in VIEW_KEYS if not key.pages] + [place.key for place in PLACES if place.key]
    for page in pages:
        here = [key.key for key in VIEW_KEYS if page in key.pages]
        here += [act.key for act in actions() if page in act.pages and act.key]
        assert len({*here, *everywhere}) == len(here) + len(everywhere), (page, sorted(here))


@pytest.mark.usefixtures("kept_figures")
def test_an_act_of_the_table_needs_its_role():
    run = full_run()
    paths = {one.name: one.path for one in addresses(run)}
    viewer = client_of("viewer")
    for act in actions():
        if act.role is Role.VIEWER:  # everybody's own
            continue
        answer = viewer.post(paths[act.route], {**act.sends})
        assert answer.status_code == 403, act.name
        if act.name != "rule.create":  # two roles may; the page names both
            assert act.role.value in answer.content.decode(), act.name


def script_of(html: str) -> dict:
    found = re.search(r'<script id="commands" type="application/json">(.*?)</script>', html)
    assert found
    return json.loads(found[1])


def test_the_page_knows_its_acts_and_the_person_s_places():
    run = full_run()
    operator, viewer = client_of("operator"), client_of("viewer")
    script = script_of(operator.get(f"/s/{run.pk}/").content.decode())
    pause = next(act for act in script["acts"] if act["label"] == "Pause the search")
    assert pause["url"] == f"/s/{run.pk}/pause" and script["go"]["n"] == "/new" and script["go"]["g s"] == "/"
    other = script_of(viewer.get(f"/s/{run.pk}/").content.decode())
    assert other["acts"] == [] and "n" not in other["go"]
    assert script["denied"] == {} and other["denied"]["p"].startswith(
        "Your role is viewer: you can read but not change anything. “Pin the node” needs the"
    )
    rules = script_of(operator.get("/rules/").content.decode())["denied"]
    assert rules["a"] == "“Approve the rule” needs the role reviewer. An admin can add it to your account."


def test_the_shortcut_help_lists_the_keys_of_this_page():
    run = full_run()
    html = client_of("operator").get(f"/s/{run.pk}/").content.decode()
    for words in ("Prune the node", "Best node", "Activity", "Find a page, a search or an action"):
        assert words in html
    home = client_of("viewer").get("/").content.decode()
    assert "Best node" not in home and "Next and previous row" in home


def test_the_bar_marks_where_one_is():
    html = client_of("viewer").get("/problems/").content.decode()
    assert re.search(r'href="/problems/" aria-current="page"', html) and html.count('aria-current="page"') == 1


def test_a_stop_that_stays_is_asked_first():
    campaign = Campaign.objects.create(title="many", device=make_device(), proposer="builtin", steps=5)
    operator = client_of("operator")
    page = operator.post(f"/campaigns/{campaign.pk}/stop", {"key": "k"}).content.decode()
    campaign.refresh_from_db()
    assert campaign.state == "running" and "Stop this campaign?" in page and 'name="sure" value="1"' in page
    assert operator.post(f"/campaigns/{campaign.pk}/stop", {"key": "k", "sure": "1"}).status_code == 302
    campaign.refresh_from_db()
    assert campaign.state == "stopped"


def test_an_upload_is_in_the_audit_once(django_user_model):
    user = django_user_model.objects.create_user("uploader")
    data = b"""import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(4)]
def get_init_inputs():
    return []
"""
    for _ in range(2):
        problem, _ = problem_upload(name="double.py", data=data, user=user)
    act = AuditEntry.objects.get(verb="problem.upload")
    assert (act.object_id, act.actor, act.after["slug"]) == (str(problem.pk), user, problem.slug)
