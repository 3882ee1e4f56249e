"""Two arms of an adapt run differ by memory alone: what would change one of them unseen is refused."""

from __future__ import annotations

import pytest

from adaexplore_site.core.audit import ActionRefused
from search.batches.adapt_results import task_rows
from search.batches.adapts import ADAPTS
from search.records.models import RunEvent
from search.steering.many import NodeFilter
from tests.pages import client_of
from tests.search.adapt_rows import AdaptWorker, make_adapt, searches
from tests.search.makers import make_run
from tests.search.steered import run_concurrency, steer_boost, steer_bulk, steer_note, steer_params, steer_prune

pytestmark = pytest.mark.django_db
SMALL = NodeFilter(kind="small")


def paired(**changes):
    adapt, worker = make_adapt(**{"tasks": 1, "steps": 2} | changes), AdaptWorker()
    for follow_up in ADAPTS.advance(adapt.pk):
        worker.do(follow_up)
    for task in adapt.entries.all():
        ADAPTS.admit(task.pk, bench_for=worker.bench)
    return adapt, worker, searches(adapt)[0]


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (lambda run: steer_params(run=run, changes={"w": 0.9}, user=None), "parameters"),
        (lambda run: steer_prune(run=run, number=1, user=None), "open nodes"),
        (lambda run: steer_boost(run=run, number=1, boost=1.0, user=None), "boosts"),
        (lambda run: steer_bulk(run=run, act="prune", chosen=SMALL, expected=1, user=None), "open nodes"),
        (lambda run: run_concurrency(run=run, concurrency=7, user=None), "steps in flight"),
    ],
)
def test_what_marks_no_step_is_refused_in_either_arm(act, what):
    adapt, worker, (_, run, control) = paired()
    events = RunEvent.objects.count()
    for arm, other in ((run, control), (control, run)):
        with pytest.raises(ActionRefused, match=f"with search {other.pk}: their {what} stay equal"):
            act(arm)
    assert RunEvent.objects.count() == events
    row = task_rows(worker.complete(adapt))[0]
    assert None not in (*row.outcome.shown.attempts, *row.outcome.control.attempts)


def test_a_note_is_possible_and_leaves_the_pair_out():
    adapt, worker, (_, run, _) = paired()
    steer_note(run=run, number=0, text="Mind the masks.", user=None)
    assert task_rows(worker.complete(adapt))[0].outcome.shown.first is None


def test_a_search_without_a_second_arm_is_steered_as_any_other():
    _, _, (_, run, control) = paired(control_steps=0)
    assert control is None
    for one in (run, make_run(key="alone")):
        steer_params(run=one, changes={"w": 0.9}, user=None)
        assert RunEvent.objects.filter(run=one, kind="steer.params").exists()


def test_pages_say_so_and_name_both_arms():
    adapt, worker, (_, run, control) = paired()
    client = client_of("operator")
    for arm in (run, control):
        page = client.get(f"/s/{arm.pk}/").content.decode()
        assert f"that adapt run {adapt.pk} compares it with" in page and 'value="params"' not in page
    assert 'value="params"' in client.get(f"/s/{make_run(key='alone').pk}/").content.decode()
    worker.complete(adapt)
    page = client.get(f"/adapt/{adapt.pk}/").content.decode()
    assert f'<span class="visually-hidden"> in search {control.pk} without memory</span></a>' in page


@pytest.mark.parametrize(("limits", "offered"), [({"device_s": 3000}, False), ({}, True)])
def test_no_arm_offers_to_add_to_limits_that_the_adapt_run_shares_out(limits, offered):
    _, _, (_, run, control) = paired(limits=limits)
    for arm in (run, control):
        page = client_of("operator", f"op{arm.pk}").get(f"/s/{arm.pk}/").content.decode()
        assert ('value="limits"' in page) is offered
