"""A rule that was proposed from a cluster is withdrawn by Undo, unless somebody relies on it; the history says so."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from memory.failures.models import Failure
from memory.prompting.models import RuleUse
from memory.prompting.scopes import Scope
from memory.rules.models import Rule
from memory.rules.services import rule_join
from search.failures.views import cluster_context
from search.live.panels import causes_of
from tests.memory import decisions as acts
from tests.memory.decisions import cluster_assign, cluster_merge, cluster_propose, cluster_split, undo
from tests.memory.failure_rows import DTYPE, UNKNOWN, cluster_of, failed
from tests.memory.failures.test_cluster_acts import CLAIM
from tests.memory.rule_rows import card, fresh, person, rule
from tests.search.makers import make_problem, make_run

pytestmark = pytest.mark.django_db
NOW = timezone.now()


@pytest.fixture
def user() -> User:
    return User.objects.create_user("rita")


def proposed(user, count=2, claim=CLAIM):
    run = make_run()
    cluster = cluster_of(run, UNKNOWN, count=count)
    Failure.objects.filter(pk=cluster.failures.first().pk).update(lesson="nothing", lesson_why="unknown")
    made = cluster_propose(cluster=cluster, claim=claim, user=user)
    return made, cluster, AuditEntry.objects.filter(verb="cluster.propose").first()


def lessons():
    return sorted(Failure.objects.values_list("lesson", "lesson_why"))


def test_undo_withdraws_the_rule_and_gives_the_failures_their_lessons_back(user):
    _, _, act = proposed(user)
    assert lessons() == [("rule", ""), ("rule", "")]
    undone = undo(act.pk, user=user, key="u")
    assert undo(act.pk, user=user, key="u") == undone
    assert not Rule.objects.exists() and lessons() == [("", ""), ("nothing", "unknown")]
    with pytest.raises(ActionRefused, match="undone already"):
        undo(act.pk, user=user)


def test_a_rule_that_somebody_has_decided_on_stays(user):
    row, _, act = proposed(user)
    approval = acts.rule_approve(**card(row, user))
    with pytest.raises(ActionRefused, match=f"A decision was made on rule {row.pk} since"):
        undo(act.pk, user=user)
    assert fresh(row).sightings.count() == 2 and lessons() == [("rule", ""), ("rule", "")]
    undo(approval.pk, user=user)
    undo(act.pk, user=user)
    assert not Rule.objects.exists()


def test_two_rules_of_the_same_failures_are_taken_back_in_any_order(user):
    _, cluster, first = proposed(user)
    cluster_propose(cluster=cluster, claim="Do not call libdevice inside of a loop.", user=user)
    second = AuditEntry.objects.filter(verb="cluster.propose").latest("pk")
    undo(first.pk, user=user)
    assert Rule.objects.count() == 1 and lessons() == [("rule", ""), ("rule", "")]
    undo(second.pk, user=user)
    assert not Rule.objects.exists() and lessons() == [("", ""), ("nothing", "unknown")]


@pytest.mark.parametrize("by", ["sighting", "prompt"])
def test_a_rule_that_was_seen_or_used_since_stays(user, by):
    row, cluster, act = proposed(user)
    if by == "sighting":
        rule_join(failure=failed(make_run(key="b"), UNKNOWN), claim=CLAIM, pattern="", origin="model", scope=Scope())
    else:
        node = cluster.failures.first().node
        RuleUse.objects.create(node=node, rule=row, version=row.current, arm="shown")
    with pytest.raises(ActionRefused, match="seen or used since"):
        undo(act.pk, user=user)
    assert fresh(row).state == "proposed"


def test_a_rule_that_was_there_before_keeps_what_it_had(user):
    first = failed(make_run(problem=make_problem("gelu")), UNKNOWN)
    row = rule(CLAIM)
    rule_join(failure=first, claim=CLAIM, pattern="", origin="person", scope=Scope())
    _, _, act = proposed(user, claim=CLAIM)
    assert fresh(row).sightings.count() == 3
    undone = undo(act.pk, user=user)
    assert undone.after["withdrawn"] is False
    assert [sighting.failure for sighting in fresh(row).sightings.all()] == [first]


def test_a_proposal_of_before_says_what_to_do_instead(user):
    _, cluster, act = proposed(user)
    AuditEntry.objects.filter(pk=act.pk).update(after={"rule": act.after["rule"], "sightings": 2}, before={})
    with pytest.raises(ActionRefused, match="Reject it on its page"):
        undo(act.pk, user=user)
    assert [row.standing.label for row in cluster_context(cluster)["history"]] == [""]


def test_the_page_undoes_it(client, user):
    row, cluster, act = proposed(user)
    client.force_login(person("rolf"))
    page = client.post(f"/failures/{cluster.key}/act", {"act": "undo", "action": act.pk, "key": "x"}, follow=True)
    text = " ".join(page.content.decode().split())
    assert f"Undone: rule {row.pk} is withdrawn." in text
    assert f"Undone: proposed rule {row.pk} with 2 sightings" in text


def test_the_history_says_titles_and_names_and_no_keys(user):
    run = make_run()
    into, part = cluster_of(run, UNKNOWN), cluster_of(run)
    cluster_assign(cluster=part, assignee=user, user=user)
    merge = cluster_merge(cluster=part, into=into, user=user)
    texts = [row.text for row in cluster_context(into)["history"]]
    assert texts == [
        "“Calls a Triton dtype (smoke)”: Merged into “RuntimeError: the frobnicator is upside down (smoke)”",
        "“Calls a Triton dtype (smoke)”: Assigned to rita",
    ]
    undo(merge.pk, user=user)
    cluster_merge(cluster=part, into=into, user=user)
    cluster_split(cluster=part, user=user)
    own = [row.text for row in cluster_context(part)["history"]]
    assert own[0] == "Split off again" and own[2].startswith("Undone: merged into “RuntimeError")
    assert not any(into.key in text or part.key in text for text in [*texts, *own])


def test_one_error_at_two_stages_has_two_titles_and_keys_that_stay(client):
    run = make_run()
    early, late = failed(run, DTYPE, stage="compile").cluster, failed(run, DTYPE).cluster
    assert (early.title, late.title) == ("Calls a Triton dtype (compile)", "Calls a Triton dtype (smoke)")
    assert (early.key, late.key) == ("d2dab20d5a92", "a011d50e932a")
    client.force_login(person())
    page = client.get("/failures/").content.decode()
    assert early.title in page and late.title in page
    assert {cause.what for cause in causes_of(run, 2)} == {
        early.title[:1].lower() + early.title[1:],
        "calls a Triton dtype (smoke)",
    }


def test_a_long_title_keeps_its_stage(client):
    cluster = cluster_of(make_run(), f"RuntimeError: {'odd ' * 60}")
    assert cluster.short_title.endswith("… (smoke)") and len(cluster.short_title) < 100
