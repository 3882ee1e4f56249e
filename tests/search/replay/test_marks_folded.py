"""A kernel in doubt counts as a wrong one from its mark on: in pools, prompts, rewards and bests, and in the replay."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from judge.evaluations.models import Evaluation
from search.algorithm.params import SearchParams
from search.engine.completion import node_complete
from search.engine.steps import task_of
from search.proposers.exchange import build_prompt
from search.proposers.protocol import Reply, Task
from search.rechecks import marking
from search.rechecks.marking import FLAKY, QUARANTINE, RELEASE
from search.records.facts import node_rows, tree_of
from search.records.models import Node, Run
from search.records.queries import best_node, run_tree
from search.records.queue import FollowUp
from search.replay.check import replay_run
from search.replay.what_if import what_if
from tests.search.fakes import FakeBench, ScriptedProposer, kernel, passed, wrong
from tests.search.makers import Worker, make_run
from tests.search.steered import kernel_mark

pytestmark = pytest.mark.django_db
CHAIN: dict[str, Any] = {"policy": "chain", "p_large": 1.0}  # each pool holds everything that was told before


def mark(run: Run, number: int, verb: str = QUARANTINE) -> None:
    kernel_mark(node=Node.objects.get(run=run, number=number), verb=verb, user=None)


def marked_run(acts: dict[int, tuple[int, str]], *, bench: FakeBench | None = None, **given: Any) -> tuple[Run, Worker]:
    """A finished search, in which node `acts[k][0]` is marked while node k is being written."""
    run = make_run(**({"params": CHAIN, "steps": 6} | given))

    def during(task: Task) -> Reply:
        mark(run, *acts[task.number])
        return kernel(task)

    worker = Worker(ScriptedProposer(dict.fromkeys(acts, during)), bench)
    return worker.run(run), worker


def contexts(run: Run) -> list[list[int]]:
    return list(run.nodes.exclude(number=0).order_by("number").values_list("context", flat=True))


def test_a_doubted_kernel_leaves_later_pools_and_comes_back_once_it_is_released():
    run, worker = marked_run({3: (1, QUARANTINE), 5: (1, RELEASE)})
    assert contexts(run) == [[], [1], [1, 2], [2, 3], [2, 3, 4], [1, 2, 3, 4, 5]]
    assert [[shown.number for shown in task.context_kernels] for task in worker.proposer.tasks] == contexts(run)
    replayed = replay_run(run)
    assert (replayed.first, replayed.agreed, replayed.decisions) == (None, 6, 6)


def test_flaky_kernels_leave_too_and_retired_ones_stay():
    assert contexts(marked_run({3: (1, FLAKY)})[0])[3] == [2, 3]
    assert contexts(marked_run({3: (1, marking.RETIRE)}, seed=2)[0])[3] == [1, 2, 3]


def test_a_prompt_that_is_written_after_the_mark_shows_the_kernel_in_doubt_and_not_as_a_pass():
    run, worker = make_run(params=CHAIN), Worker(bench=FakeBench({0: passed(3.0)}))
    follow_ups = [FollowUp("advance", run.pk)]
    while not run.nodes.filter(number=2).exists():
        follow_ups = worker.do(follow_ups[0])
    node = run.nodes.get(number=2)
    assert "3 times as fast" in build_prompt(task_of(node)).user
    mark(run, 1)
    (shown,) = task_of(node).context_kernels
    assert (shown.number, shown.verdict, shown.speedup) == (1, "suspect", None)
    prompt = build_prompt(task_of(node)).user
    assert "times as fast" not in prompt and "pass" not in prompt.split("Kernel 1:")[1].splitlines()[0]
    assert "Quarantined: marked by a person" in prompt


@pytest.mark.parametrize("name", ["paper", "log"])
def test_its_reward_is_that_of_a_wrong_kernel_until_it_is_released(name):
    bench = FakeBench({0: passed(50.0), 1: passed(2.0), 2: wrong()})
    run = Worker(bench=bench).run(make_run(steps=3, params={"reward": name}))
    before = {node.number: node.reward for node in run_tree(run).nodes}
    mark(run, 1)
    after = {node.number: node.reward for node in run_tree(run).nodes}
    assert after[1] == after[3] == 0.05
    if name == "log":  # the scale ends at the fastest kernel that is believed
        assert (before[2], after[2]) == (0.4, pytest.approx(1.6))
    else:
        assert after[2] == before[2]
    mark(run, 1, RELEASE)
    assert {node.number: node.reward for node in run_tree(run).nodes} == before
    assert replay_run(Run.objects.get(pk=run.pk)).first is None


def test_greedy_turns_to_the_next_best_kernel_and_map_elites_has_another_elite():
    for seed, policy in enumerate(("greedy", "map_elites")):
        bench = FakeBench({0: passed(50.0), **{k: passed(2.0) for k in range(1, 4)}})
        params = {"policy": policy, "small_step_limit": 0}
        run, _ = marked_run({3: (1, QUARANTINE)}, bench=bench, params=params, steps=4, seed=seed)
        parents = dict(run.nodes.exclude(number=0).values_list("number", "parent__number"))
        assert parents[3] == 1 and parents[4] not in (0, 1), policy
        assert replay_run(run).first is None


def test_a_doubted_kernel_is_no_incumbent_and_the_next_one_has_only_to_beat_who_is_left():
    bench = FakeBench({0: passed(9.0), 1: passed(2.0)})
    run, worker = marked_run({3: (1, QUARANTINE)}, bench=bench, steps=3)
    job = worker.bench.jobs[2]
    assert (job.beat, job.incumbent) == (2.0, run.nodes.get(number=2).source)
    assert best_node(run.pk).number != 1


def test_an_equal_kernel_told_later_is_in_doubt_from_its_verdict_on():
    def same(task: Task) -> Reply:
        return Reply(source=Node.objects.get(run=run, number=1).source, summary="once more")

    run = make_run(params=CHAIN, steps=4)
    mark_at_two = lambda task: (mark(run, 1), kernel(task))[1]  # noqa: E731
    Worker(ScriptedProposer({2: mark_at_two, 3: same})).run(run)
    assert run.nodes.get(number=3).evaluation.doubt == "quarantined"
    assert contexts(run)[3] == [2]
    assert replay_run(run).first is None


def test_a_run_from_before_decides_on_and_replays_as_it_did():
    run = make_run(params=CHAIN, steps=6)
    former = {name: value for name, value in run.params.items() if name != "version"}
    Run.objects.filter(pk=run.pk).update(params=former)
    during = {3: lambda task: (mark(run, 1), kernel(task))[1]}
    run = Worker(ScriptedProposer(during)).run(Run.objects.get(pk=run.pk))
    assert contexts(run)[3:] == [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]]
    assert replay_run(run).first is None
    assert run_tree(run).nodes[1].reward > 0.05
    Run.objects.filter(pk=run.pk).update(params={**former, "version": 2})
    assert "context of node 4" in replay_run(Run.objects.get(pk=run.pk)).first.what


def test_a_new_run_is_of_this_version_whatever_its_parameters_come_from():
    assert make_run(params={"version": 1}).params["version"] == 2
    with pytest.raises(ValueError, match="version"):
        SearchParams.from_texts(["version=1"])


def test_what_another_policy_would_have_done_is_asked_of_the_kernels_believed_at_that_moment():
    bench = FakeBench({0: passed(50.0), **{k: passed(2.0) for k in range(1, 6)}})
    run, _ = marked_run({3: (1, QUARANTINE), 5: (1, RELEASE)}, bench=bench)
    asked = {at: what_if(run, {"policy": "greedy"}, at).found.decision.parent for at in (3, 4, 6)}
    assert asked[3] == asked[6] == 1 and asked[4] != 1


def test_a_verdict_is_told_with_the_mark_that_holds_by_then():
    run, worker = make_run(steps=1), Worker()
    (follow_up,) = worker.do(FollowUp("advance", run.pk))
    node = Node.objects.get(pk=follow_up.target)
    read = Evaluation.objects.create(
        problem=run.problem, device=run.device, candidate_hash="0" * 64, protocol="p", verdict="pass", stage="timing"
    )
    Evaluation.objects.update(doubt="flaky")
    node_complete(run=run, node=node, owner=node.lease_owner, now=worker.now, evaluation=read)
    assert run.events.get(kind="node.told").payload["doubt"] == "flaky"


def test_a_search_that_tells_the_kernel_while_it_is_being_marked_says_so_too(monkeypatch):
    run, other = Worker().run(make_run(steps=1)), make_run(steps=1, seed=2)
    worker = Worker(ScriptedProposer({1: lambda task: Reply(source=run.nodes.get(number=1).source, summary="same")}))
    (propose,) = worker.do(FollowUp("advance", other.pk))
    (judge,) = worker.do(propose)
    locked, calls = marking.marks_locked, list[int]()

    def meanwhile(**kernel: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            worker.do(judge)
        return locked(**kernel)

    monkeypatch.setattr(marking, "marks_locked", meanwhile)
    mark(run, 1)
    worker.work([judge])
    said = []
    for search in (run, other):
        told, marked = (search.events.filter(kind=kind).first() for kind in ("node.told", "kernel.marked"))
        said.append((bool(told.payload.get("doubt")), marked is not None))
        assert replay_run(search).first is None
    assert said == [(False, True), (True, False)]


@pytest.mark.parametrize("policy", ["uct", "greedy", "map_elites", "chain"])
@pytest.mark.parametrize("reward", ["paper", "log"])
def test_marks_at_any_moment_replay_and_leave_no_doubted_kernel_in_a_pool(policy, reward):
    """Sixteen steps, three in flight, told in drawn order; every other delivery somebody marks or releases a kernel."""
    rng = Random(f"{policy} {reward}")
    run = make_run(steps=16, concurrency=3, params={"policy": policy, "reward": reward, "p_large": 0.6})
    worker, waiting, doubted, pools = Worker(), [FollowUp("advance", run.pk)], set[int](), 0
    while waiting:
        follow_up = waiting.pop(rng.randrange(len(waiting)))
        known = set(run.nodes.values_list("number", flat=True))
        waiting += worker.do(follow_up)
        for node in run.nodes.exclude(number__in=known).filter(kind="large"):
            pools += bool(node.context)
            assert doubted.isdisjoint(node.context)
        told = list(run.nodes.filter(state="told", evaluation__isnull=False).values_list("number", flat=True))
        if told and rng.random() < 0.5:
            number = rng.choice(told)
            mark(run, number, RELEASE if number in doubted else rng.choice([QUARANTINE, FLAKY]))
            doubted ^= {number}
    run.refresh_from_db()
    assert run.ended and pools
    replayed = replay_run(run)
    assert (replayed.first, replayed.decisions) == (None, 16)
    tree = tree_of(node_rows(run.pk), SearchParams.of_run(run.params))
    assert all(tree[number].speedup is None for number in doubted)
