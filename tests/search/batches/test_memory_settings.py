"""Memory on the forms and commands that start searches, on the page of a search and of a node."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory.prompting.choices import OFF, MemoryChoice
from memory.prompting.freezing import choice_of
from memory.prompting.models import RunMemory
from search import proposers
from search.algorithm.params import SearchParams
from search.batches.campaigns import CAMPAIGNS, campaign_start
from search.batches.models import Campaign
from search.batches.views import CampaignForm
from search.live.frames import panels_html
from search.records.models import Run
from search.runs.forms import StartForm
from search.runs.memory_fields import memory_chosen
from tests.memory.prompt_rows import make_rule
from tests.pages import HOSTILE, client_of
from tests.search.makers import Worker, make_device, make_problem, make_run
from tests.search.proposers.test_rules_in_prompts import HALF, rules

pytestmark = pytest.mark.django_db
FORM = {"steps": "3", "device": "interpreter", "proposer": "builtin"}


def choice(**data: str) -> MemoryChoice:
    form = StartForm(
        FORM | {"problem": make_problem().slug} | data, devices=[make_device()], choices=proposers.available()
    )
    assert form.is_valid(), form.errors
    return form.memory()


def test_a_search_uses_approved_rules_and_does_not_learn_unless_asked():
    assert choice() == choice(rules="reviewed") == MemoryChoice()
    assert choice(rules="off", learns="on") == MemoryChoice(uses=False, learns=True)
    folded = {"rule_threshold": "1", "rule_tokens": "0", "rule_withhold": "25"}
    assert choice(rules="auto", **folded) == MemoryChoice(trust="auto", threshold=1, budget_tokens=0, withhold=0.25)


@pytest.mark.parametrize(
    ("field", "value"), [("rules", "all"), ("rule_threshold", "0"), ("rule_tokens", "-1"), ("rule_withhold", "101")]
)
def test_a_wrong_value_is_said_at_its_field(field, value):
    form = StartForm(
        FORM | {"problem": make_problem().slug, field: value}, devices=[make_device()], choices=proposers.available()
    )
    assert not form.is_valid() and list(form.errors) == [field]


def test_the_form_starts_a_search_with_the_choice():
    client, problem, _ = client_of("operator"), make_problem(), make_device()
    page = client.get(reverse("run-new"), {"problem": problem.slug}).content.decode()
    assert "Rules in prompts" in page and "Learn from its failures" in page and "How rules are chosen" in page
    given = FORM | {"problem": problem.slug, "key": "k", "rules": "auto", "learns": "on", "rule_threshold": "2"}
    client.post(reverse("run-new"), given)
    assert choice_of(RunMemory.objects.get()) == MemoryChoice(learns=True, trust="auto", threshold=2)


def test_every_search_of_a_campaign_takes_its_choice():
    form = CampaignForm(
        {"steps": "2", "at_once": "1", "concurrency": "1", "seeds": "same", "preset": "default"} | {"rules": "off"}
    )
    form.is_valid()
    assert form.memory() == OFF
    wanted = MemoryChoice(threshold=7)
    started = {"problems": [make_problem()], "device": make_device(), "proposer": "builtin", "steps": 2}
    campaign = campaign_start(**started, memory=wanted)
    CAMPAIGNS.advance(campaign.pk)
    page = client_of("viewer").get(f"/campaigns/{campaign.pk}/").content.decode()
    assert "approved rules in prompts" in page and "learns from failures" not in page
    assert choice_of(RunMemory.objects.get()) == wanted
    Campaign.objects.filter(pk=campaign.pk).update(memory={})
    assert MemoryChoice.from_json(Campaign.objects.get().memory) == MemoryChoice()


def test_commands_take_the_same_options_and_say_what_is_wrong():
    plain = {"learn": False, "rule_threshold": 3, "rule_tokens": 1500, "rule_withhold": 0.1}
    assert memory_chosen({"memory": "reviewed"} | plain) == MemoryChoice()
    assert memory_chosen({"memory": "off"} | plain) == OFF
    for command in (["run_search", "--problem", make_problem().slug], ["campaign", "start", "--steps", "1"]):
        if command[0] == "campaign":
            command += ["--problems", make_problem().slug]
        with pytest.raises(CommandError, match="withhold must be a probability"):
            call_command(*command, "--rule-withhold", "2", stdout=StringIO(), stderr=StringIO())
    assert not Run.objects.exists()


def test_a_threshold_among_search_parameters_of_a_former_version_is_passed_over():
    assert SearchParams.from_json({"w": 0.7, "rule_threshold": 5}) == SearchParams(w=0.7)


def test_the_page_of_a_search_lists_its_rules_and_escapes_them():
    rules(2)
    make_rule(HOSTILE, support=4)
    run = make_run(memory=HALF)
    page = client_of("viewer").get(f"/s/{run.pk}/").content.decode()
    panel = page[page.index('id="rules-title"') : page.index('id="steering-title"')]
    for words in ("3 rules", "withheld from 50 %", "seen on 4 problems", "approved without sightings", "no evidence"):
        assert words in panel
    assert "<img src=x" not in page


def test_a_search_without_rules_says_so():
    client = client_of("viewer")
    for made, words in (
        (make_run(memory=OFF), "No rules in its prompts"),
        (make_run(memory=MemoryChoice()), "No rule was active here"),
    ):
        assert words in client.get(f"/s/{made.pk}/").content.decode()
    RunMemory.objects.all().delete()
    assert "was not recorded" in client.get(f"/s/{made.pk}/").content.decode()


def test_the_page_of_a_node_says_what_its_prompt_had_and_what_was_withheld():
    rules()
    run = Worker().run(make_run(memory=MemoryChoice(withhold=0.5, budget_tokens=70)))
    client = client_of("viewer")
    pages = [client.get(f"/s/{run.pk}/n/{number}/").content.decode() for number in range(6)]
    assert "Rules from memory" not in pages[0]
    assert all("Rules from memory" in page for page in pages[1:])
    every = "".join(pages)
    assert all(title in every for title in ("In the prompt", "Withheld at random", "Left out: no room"))


def test_a_frame_of_the_live_view_asks_nothing_of_memory():
    rules()
    run = make_run(memory=HALF)
    with CaptureQueriesContext(connection) as queries:
        panels_html(run)
    rules_asked = ("memory_rule", "memory_runmemory", "memory_frozenrule")  # causes of failures are another panel
    assert not [query for query in queries if any(table in query["sql"] for table in rules_asked)]
