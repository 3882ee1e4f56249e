"""An imported search can be taken out again, whole, by a person who was asked; what others need stays."""

from __future__ import annotations

import pytest

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from memory.failures.models import Failure
from memory.rules.models import Rule, Sighting
from search.interchange.imports import search_import
from search.records.models import Node, Run, RunEvent
from tests.memory.rule_rows import rule
from tests.pages import client_of
from tests.search.makers import make_run
from tests.search.recorded import packed, quick_hashes, step  # noqa: F401
from tests.search.steered import run_remove

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_hashes")]
FILE = packed([step(1, 0), step(2, 1, kind="small_step", context=[1]), step(3, 0, fast_p=0)])


@pytest.fixture
def run() -> Run:
    return search_import(data=FILE, name="wrong-one.json")


def everything() -> tuple[int, ...]:
    return tuple(rows.objects.count() for rows in (Run, Node, RunEvent, Evaluation, Failure, Sighting, Device))


def test_it_goes_whole_and_its_file_brings_it_back(run):
    there = everything()
    run_remove(run=run, user=None)
    assert everything() == (0,) * 7 and Problem.objects.count() == 1
    back = search_import(data=FILE, name="wrong-one.json")
    assert back.pk != run.pk and everything() == there


def test_another_import_of_the_same_problem_and_device_loses_nothing(run):
    alone = everything()
    other = search_import(data=packed([step(1, 0), step(2, 0)], label="another"), name="other.json")
    run_remove(run=other, user=None)
    assert everything() == alone and run.nodes.exclude(evaluation=None).count() == 3


def test_a_person_is_asked_and_then_named_in_the_audit(run):
    operator = client_of("operator", "olga")
    page = operator.get(f"/s/{run.pk}/remove").content.decode()
    assert "3 nodes" in page and "1 failure in Failures" in page and "Its problem" not in page
    assert Run.objects.exists()
    answer = operator.post(f"/s/{run.pk}/remove", {"key": "k1"}, follow=True)
    html = answer.content.decode()
    assert answer.redirect_chain == [(f"/s/{run.pk}/activity/", 302)]
    assert f"Search {run.pk} was removed" in html and "olga" in html and "Imported the search" in html
    assert AuditEntry.objects.get(verb="run.remove").before["file"] == "wrong-one.json"
    assert operator.get(f"/s/{run.pk}/")["Location"] == f"/s/{run.pk}/activity/"
    assert f"/s/{run.pk}/activity/" in operator.get("/import").content.decode()
    assert operator.get(f"/s/{run.pk + 1}/activity/").status_code == 404


def test_a_viewer_may_look_but_not_remove(run):
    viewer = client_of("viewer")
    assert "button-danger" not in viewer.get(f"/s/{run.pk}/remove").content.decode()
    assert viewer.post(f"/s/{run.pk}/remove").status_code == 403 and Run.objects.exists()


def test_a_search_that_others_were_branched_from_stays(run):
    new = make_run()
    Run.objects.filter(pk=new.pk).update(branched_from=run.nodes.get(number=1))
    before = everything()
    answer = client_of("operator").post(f"/s/{run.pk}/remove")
    assert (
        answer.status_code == 409 and f"Search {new.pk} started from a kernel of this search" in answer.content.decode()
    )
    assert everything() == before


def test_evidence_of_a_living_rule_stays_and_of_a_rejected_one_goes_along(run):
    row = rule("Do not call tl.dot on one element.")
    Sighting.objects.create(rule=row, failure=run.failures.get())
    with pytest.raises(ActionRefused, match=f"Rule {row.pk} would lose its failures as evidence"):
        run_remove(run=run, user=None)
    assert Sighting.objects.count() == 1
    Rule.objects.update(state=Rule.State.REJECTED)
    said = "1 sighting of rejected, retired or merged rules"
    assert said in client_of("viewer").get(f"/s/{run.pk}/remove").content.decode()
    run_remove(run=run, user=None)
    assert Rule.objects.count() == 1 and not Sighting.objects.exists()


def test_a_search_that_was_made_here_stays():
    own = make_run()
    with pytest.raises(ActionRefused, match="Only imported searches can be removed"):
        run_remove(run=own, user=None)
    assert Run.objects.get() == own


def test_the_same_key_twice_is_one_act(run):
    for _ in range(2):
        run_remove(run=run, user=None, key="once")
    assert AuditEntry.objects.filter(verb="run.remove").count() == 1
