"""Each act on a running search: what it changes, what it refuses, what undoing it gives back."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from search.engine.completion import node_cancel
from search.live.frames import panels_html
from search.records.facts import standing_of
from search.records.log import steering_of
from search.records.models import Node, Run
from search.records.queries import best_node
from search.records.queue import FollowUp
from search.replay.check import replay_run
from search.runs.services import run_stop
from search.steering.forms import NOTE_CHARS
from tests.search.campaign_rows import make_campaign
from tests.search.live_rows import grow
from tests.search.makers import Worker, kinds, make_run, old_budget_add, told
from tests.search.steered import (
    run_budget_add,
    steer_boost,
    steer_force,
    steer_inject,
    steer_note,
    steer_params,
    steer_pin,
    steer_prune,
    steer_restore,
    steer_undo,
)

pytestmark = pytest.mark.django_db
KERNEL = "class ModelNew:\n    by_hand = True\n"


@pytest.fixture
def user():
    return get_user_model().objects.create_user("operator-one")


def partly(run: Run, count: int) -> Worker:
    """Work until `count` nodes are told, then leave it; the follow-up tasks left are in `worker.left`."""
    worker = Worker()
    worker.left = [FollowUp("advance", run.pk)]
    further(run, worker, count)
    return worker


def further(run: Run, worker: Worker, count: int) -> None:
    """Work on until `count` nodes are told."""
    while run.nodes.filter(state=Node.State.COMPLETED).count() <= count:  # the root is told too
        worker.left = worker.left[1:] + worker.do(worker.left[0])


def last_act(run: Run) -> int:
    return AuditEntry.objects.filter(verb__startswith="steer.").latest("pk").after["seq"]


def budget(run: Run, steps: int) -> None:
    run_budget_add(run=run, delta={"steps": steps}, user=None)


def undo(run: Run, seq: int = 0) -> None:
    steer_undo(run=run, seq=seq or last_act(run), user=None)


def test_a_pin_leads_the_next_selections_to_its_subtree_exactly(user):
    run = make_run(steps=12)
    worker = partly(run, 4)
    steer_pin(run=run, number=2, quota=3, user=user)
    worker.work(worker.left)
    served = run.nodes.filter(steered__pin=last_act(run))
    assert served.count() == 3 and all(node.touched for node in served)
    assert {node.parent.number for node in served} <= {2, *(node.number for node in served)}
    assert replay_run(run).first is None


def test_a_pin_on_a_node_in_flight_waits_for_its_verdict(user):
    run = make_run(steps=8, concurrency=2)
    worker = Worker()
    follow_ups = worker.do(FollowUp("advance", run.pk))
    steer_pin(run=run, number=2, quota=2, user=user)
    worker.work(follow_ups)
    assert run.nodes.filter(steered__pin=last_act(run), parent__number__gte=2).count() == 2


def test_a_withdrawn_selection_is_given_back_to_its_pin_and_to_a_forced_step(user):
    run, worker = make_run(steps=9), Worker()
    worker.do(worker.do(worker.do(FollowUp("advance", run.pk))[0])[0])
    steer_pin(run=run, number=1, quota=2, user=user)
    steer_force(run=run, kind="small", user=user)
    worker.do(FollowUp("advance", run.pk))
    assert (steering_of(run.pk).pins[0].left, steering_of(run.pk).forces) == (1, ())
    with transaction.atomic():
        node_cancel(run=run, node=run.nodes.get(number=2), why="The proposer failed.")
    assert (steering_of(run.pk).pins[0].left, len(steering_of(run.pk).forces)) == (2, 1)
    worker.work([FollowUp("advance", run.pk)])
    assert run.nodes.exclude(state="cancelled").filter(steered__has_key="pin").count() == 2
    assert replay_run(run).first is None


def test_what_is_pruned_is_not_selected_until_it_is_restored(user):
    run = make_run(steps=12, params={"policy": "greedy"})
    worker = partly(run, 5)
    best = max(told(run), key=lambda node: node.evaluation.speedup).number
    steer_prune(run=run, number=best, user=user)
    reserved = run.nodes.count()
    worker.left = worker.left[1:] + worker.do(worker.left[0])
    further(run, worker, 10)
    assert not run.nodes.filter(number__gte=reserved, parent__number=best).exists()
    steer_restore(run=run, number=best, user=user)
    worker.work(worker.left)
    assert steering_of(run.pk).pruned == frozenset()


def test_a_prune_ends_the_pins_below_it_and_undoing_it_brings_them_back(user):
    run = make_run(steps=9)
    partly(run, 3)
    steer_pin(run=run, number=1, quota=4, user=user)
    steer_prune(run=run, number=1, user=user)
    assert steering_of(run.pk).pins == ()
    steer_restore(run=run, number=1, user=user)
    assert steering_of(run.pk).pins == ()
    undo(run)
    undo(run, AuditEntry.objects.get(verb="steer.prune").after["seq"])
    assert [pin.left for pin in steering_of(run.pk).pins] == [4]


def test_a_pin_under_two_prunes_stays_ended_when_the_first_of_them_is_undone(user):
    run = make_run(steps=12, params={"policy": "greedy", "p_large": 0.0})
    partly(run, 4)
    low = next(node for node in told(run) if node.parent.number)
    steer_pin(run=run, number=low.number, quota=4, user=user)
    steer_prune(run=run, number=low.number, user=user)
    first = last_act(run)
    steer_prune(run=run, number=low.parent.number, user=user)
    undo(run, first)
    steer_restore(run=run, number=low.parent.number, user=user)
    assert steering_of(run.pk).pins == ()


def test_a_boost_replaces_the_one_before_and_undoing_gives_that_back(user):
    run = make_run(steps=9)
    partly(run, 3)
    steer_boost(run=run, number=1, boost=0.5, user=user)
    steer_boost(run=run, number=1, boost=2.0, user=user)
    assert steering_of(run.pk).boosts == {1: 2.0}
    undo(run)
    assert steering_of(run.pk).boosts == {1: 0.5}
    steer_boost(run=run, number=1, boost=0, user=user)
    assert steering_of(run.pk).boosts == {}


@pytest.mark.parametrize(("kind", "number"), [("large", None), ("small", 2), ("large", 3)])
def test_a_forced_step_is_taken_once(user, kind, number):
    run = make_run(steps=9)
    worker = partly(run, 4)
    steer_force(run=run, kind=kind, number=number, user=user)
    act = last_act(run)
    worker.work(worker.left)
    (node,) = run.nodes.filter(steered__force=act)
    assert node.kind == kind and number in (None, node.parent.number)
    assert steering_of(run.pk).forces == ()


def test_a_note_reaches_the_prompts_of_steps_below_it_and_no_others(user):
    run = make_run(steps=14)
    worker = partly(run, 4)
    steer_note(run=run, number=1, text="  use\nsplit-K ", user=user)
    asked = len(worker.proposer.tasks)
    worker.work(worker.left)
    for task in worker.proposer.tasks[asked:]:
        node = run.nodes.get(number=task.number)
        above = {node.parent.number}
        while node.parent.number:
            node = node.parent
            above.add(node.parent.number)
        assert task.notes == (("use split-K",) if 1 in above else ())
    assert {task.notes for task in worker.proposer.tasks[asked:]} == {(), ("use split-K",)}


def test_changed_parameters_hold_from_the_next_decision_on(user):
    run = make_run(steps=10)
    worker = partly(run, 4)
    steer_params(run=run, changes={"policy": "independent"}, user=user)
    first = run.nodes.count()
    worker.work(worker.left)
    parents = set(run.nodes.filter(number__gt=first).values_list("parent__number", flat=True))
    assert parents == {0}
    run.refresh_from_db()
    assert run.params["policy"] == "uct"  # what it began with
    assert replay_run(run).first is None


def test_steps_added_by_the_acts_of_old_logs_are_taken_and_those_not_reserved_yet_can_be_taken_back(user):
    run = make_run(steps=3)
    worker = partly(run, 2)
    old_budget_add(run=run, steps=2, user=user)
    old_budget_add(run=run, steps=4, user=user)
    undo(run)
    worker.work(worker.left)
    run.refresh_from_db()
    assert (run.state, run.steps, len(told(run))) == (Run.State.FINISHED, 5, 5)
    assert replay_run(run).first is None


def test_taking_steps_back_ends_a_run_that_has_told_the_others(user):
    run = make_run(steps=2)
    worker = partly(run, 1)
    old_budget_add(run=run, steps=1, user=user)
    further(run, worker, 2)
    undo(run)
    run.refresh_from_db()
    assert (run.state, len(told(run)), kinds(run)[-2:]) == (Run.State.FINISHED, 2, ["steer.undo", "run.ended"])


def test_a_kernel_by_hand_is_judged_marked_and_brings_its_own_step(user):
    run = make_run(steps=6)
    worker = partly(run, 2)
    follow_ups = steer_inject(run=run, source=KERNEL, number=1, kind="small", user=user)
    worker.work([*follow_ups, *worker.left])
    run.refresh_from_db()
    node = run.nodes.get(source=KERNEL)
    assert (node.state, node.touched, node.kind, node.parent.number) == (Node.State.COMPLETED, True, "small", 1)
    assert (run.state, run.steps, len(told(run))) == (Run.State.FINISHED, 7, 7)
    assert replay_run(run).first is None


def test_what_stems_from_a_touched_kernel_is_touched_and_the_rest_is_not(user):
    run = make_run(steps=14)
    worker = partly(run, 3)
    worker.work([*steer_inject(run=run, source=KERNEL, user=user), *worker.left])
    hand = run.nodes.get(source=KERNEL).number
    touched = {node.number for node in run.nodes.filter(touched=True)}
    for node in run.nodes.exclude(number__in=(0, hand)):
        assert node.touched == (not touched.isdisjoint({node.parent.number, *node.context}))
    assert 0 < len(touched) < run.nodes.count()


def test_the_best_can_be_asked_for_without_what_a_person_had_a_hand_in(user):
    run = make_run(steps=6)
    worker = partly(run, 2)
    steer_pin(run=run, number=1, quota=4, user=user)
    worker.work(worker.left)
    own = run.nodes.get(number=standing_of(run.pk, unassisted=True).leader)
    assert own.number in (1, 2) and not own.touched
    best = best_node(run.pk)
    assert best.evaluation.speedup >= own.evaluation.speedup
    html = panels_html(run)["evidence"]
    assert ("manual influence" in html.lower()) == best.touched


def test_an_injection_not_judged_yet_can_be_undone_with_its_step(user):
    run = make_run(steps=3)
    worker = partly(run, 1)
    (follow_up,) = steer_inject(run=run, source=KERNEL, user=user)
    undo(run)
    assert worker.do(follow_up) == []
    worker.work(worker.left)
    run.refresh_from_db()
    assert (run.steps, len(told(run)), replay_run(run).first) == (3, 3, None)


REFUSED = [
    (lambda run: steer_pin(run=run, number=0, quota=1, user=None), "below the start already"),
    (lambda run: steer_pin(run=run, number=1, quota=0, user=None), "1 to 1000 selections, not 0"),
    (lambda run: steer_pin(run=run, number=99, quota=1, user=None), "Node 99 is not part of this search"),
    (lambda run: steer_pin(run=run, number=2, quota=1, user=None), "Node 2 above it|It was pruned: restore it first"),
    (lambda run: steer_prune(run=run, number=0, user=None), "Pause or stop"),
    (lambda run: steer_boost(run=run, number=1, boost=float("nan"), user=None), "from -10 to 10"),
    (lambda run: steer_force(run=run, kind="tiny", user=None), "large or small, not “tiny”"),
    (lambda run: steer_force(run=run, kind="small", number=0, user=None), "no kernel that a small step"),
    (lambda run: steer_note(run=run, number=1, text=" ", user=None), "The note is empty"),
    (lambda run: steer_note(run=run, number=1, text="x" * (NOTE_CHARS + 1), user=None), "1001 characters; 1000 fit"),
    (lambda run: steer_note(run=run, number=1, text="é" * 900, user=None), "fewer if some are not ASCII"),
    (lambda run: steer_params(run=run, changes={"w": -1}, user=None), "w must be from 0"),
    (lambda run: budget(run, 0), "steps must be more than 0"),
    (lambda run: budget(run, 20_000), "at most 10000 steps"),
    (lambda run: steer_inject(run=run, source="def f(:", user=None), "not taken: line 1"),
    (lambda run: steer_inject(run=run, source="x = 1", user=None), "`ModelNew` is not defined"),
    (lambda run: steer_inject(run=run, source="", user=None), "The kernel is empty"),
    (lambda run: steer_inject(run=run, source=KERNEL, number=2, user=None), "restore it first"),
    (lambda run: steer_undo(run=run, seq=1, user=None), "no such action"),
]


def test_what_cannot_be_is_refused_with_what_to_do_and_changes_nothing():
    run = make_run(steps=8)
    partly(run, 3)
    steer_prune(run=run, number=2, user=None)

    def state() -> tuple[int, ...]:
        run.refresh_from_db()
        return run.event_seq, run.steps, AuditEntry.objects.count(), run.nodes.count()

    before = state()
    for act, words in REFUSED:
        with pytest.raises(ActionRefused, match=words):
            act(run)
        assert state() == before, words


def test_a_node_below_a_pruned_one_is_restored_with_that_one():
    run = make_run(steps=8)
    grow(run)
    grow(run, parent=1)
    steer_prune(run=run, number=1, user=None)
    with pytest.raises(ActionRefused, match="Node 2 lies below node 1, which is pruned: restore that one"):
        steer_restore(run=run, number=2, user=None)


def test_undoing_what_is_used_up_or_replaced_says_so(user):
    run = make_run(steps=9)
    worker = partly(run, 3)
    steer_pin(run=run, number=1, quota=1, user=user)
    pin = last_act(run)
    steer_force(run=run, kind="large", user=user)
    force = last_act(run)
    follow_ups = steer_inject(run=run, source=KERNEL, user=user)
    inject = last_act(run)
    worker.do(follow_ups[0])
    further(run, worker, 8)
    steer_boost(run=run, number=1, boost=1, user=user)
    boost = last_act(run)
    steer_boost(run=run, number=1, boost=2, user=user)
    for seq, words in [
        (pin, "All 1 selections"),
        (force, "was reserved for it"),
        (inject, "has been judged"),
        (boost, "Later actions have replaced"),
    ]:
        with pytest.raises(ActionRefused, match=words):
            undo(run, seq)


def test_a_campaign_s_search_takes_no_steps_from_outside_its_budget():
    run, campaign = make_run(steps=4), make_campaign("a")
    campaign.entries.update(run=run, state="started")
    for act in (
        lambda: steer_inject(run=run, source=KERNEL, user=None),
        lambda: run_budget_add(run=run, delta={"steps": 1}, user=None),
    ):
        with pytest.raises(ActionRefused, match=f"Campaign {campaign.pk} allocates the steps"):
            act()
    steer_note(run=run, number=0, text="notes are welcome", user=None)


def test_added_steps_that_are_reserved_cannot_be_taken_back(user):
    run, worker = make_run(steps=2, concurrency=4), Worker()
    worker.do(FollowUp("advance", run.pk))
    (follow_up,) = old_budget_add(run=run, steps=1, user=user)
    assert len(worker.do(follow_up)) == 1
    with pytest.raises(ActionRefused, match="3 steps are judged or in flight"):
        undo(run)


def test_an_act_with_the_same_key_happens_once_and_an_undone_act_cannot_be_undone_again(user):
    run = make_run()
    for _ in range(2):
        steer_note(run=run, number=0, text="once", user=user, key="k")
    assert kinds(run).count("steer.note") == 1
    act = last_act(run)
    undo(run, act)
    with pytest.raises(ActionRefused, match="undone before"):
        undo(run, act)
    assert AuditEntry.objects.get(verb="steer.note").actor == user


def test_an_ended_search_is_not_steered():
    run = Worker().run(make_run(steps=3))
    acts = (
        lambda: steer_pin(run=run, number=1, quota=1),
        lambda: steer_prune(run=run, number=1),
        lambda: steer_restore(run=run, number=1),
        lambda: steer_boost(run=run, number=1, boost=1),
        lambda: steer_force(run=run, kind="large"),
        lambda: steer_note(run=run, number=1, text="late"),
        lambda: steer_inject(run=run, source=KERNEL),
        lambda: steer_params(run=run, changes={"w": 0.7}),
        lambda: steer_undo(run=run, seq=1),
    )
    for act in acts:
        with pytest.raises(ActionRefused, match=r"already ended .*Branch a new search"):
            act()


def test_a_stopping_search_is_not_steered(user):
    run = make_run(steps=3)
    worker = Worker()
    (propose,) = worker.do(FollowUp("advance", run.pk))
    worker.do(propose)
    Node.objects.filter(run=run, number=1).update(lease_owner="somebody")
    run_stop(run=run, user=user)
    with pytest.raises(ActionRefused, match="is stopping"):
        steer_note(run=run, number=0, text="too late", user=user)
