"""Simulated searches: repeatable, paired, driven by the real decision."""

from __future__ import annotations

import pytest

from search.algorithm.params import POLICY_NAMES, SearchParams
from search.lab.experiment import Conditions, simulate
from search.lab.spaces import Outcome, Space, synthetic_spaces
from tests.counting import calls_of
from tests.search.lab_spaces import HILL


def watched(seen: list[tuple[int, ...]]) -> Space:
    """The hill, noting what is judged."""

    def outcome(config: tuple[int, ...]) -> Outcome:
        seen.append(config)
        return HILL.outcome(config)

    return Space("watched", HILL.sizes, HILL.optimum, outcome)


@pytest.mark.parametrize("policy", POLICY_NAMES)
@pytest.mark.parametrize("workers", [1, 16])
def test_a_search_tells_every_step_once_and_never_loses_its_best(policy, workers):
    found = simulate(HILL, SearchParams(policy=policy, reward="log"), Conditions(60, workers), seed=3)
    assert len(found) == 60
    assert found == sorted(found)
    assert 0 <= found[0] <= found[-1] <= 1


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_the_same_seed_gives_the_same_search_and_another_one_another(policy):
    runs = [simulate(HILL, SearchParams(policy=policy), Conditions(40, 4), seed) for seed in (5, 5, 6)]
    assert runs[0] == runs[1] != runs[2]


def test_contenders_meet_the_same_luck_as_long_as_they_decide_alike():
    first, second = ([], [])
    simulate(watched(first), SearchParams(), Conditions(1), seed=9)
    simulate(watched(second), SearchParams(policy="greedy"), Conditions(1), seed=9)
    assert first == second


def test_independent_does_not_care_how_many_are_in_flight_but_their_order_does():
    alone, many = ([], [])
    simulate(watched(alone), SearchParams(policy="independent"), Conditions(40, 1), seed=1)
    simulate(watched(many), SearchParams(policy="independent"), Conditions(40, 8), seed=1)
    assert sorted(alone) == sorted(many)
    assert alone != many


def test_duplicates_are_drawn_again_when_asked():
    judged, again = ([], [])
    greedy = SearchParams(policy="greedy", p_large=0.0, small_step_limit=1000)
    simulate(watched(judged), greedy, Conditions(100), seed=2)
    simulate(watched(again), greedy, Conditions(100, skip_duplicates=True), seed=2)
    assert len(set(judged)) < len(set(again))


def test_what_is_in_flight_weighs_in_three_ways_and_with_one_step_there_is_no_difference():
    def ends(pending: str, workers: int) -> list[list[float]]:
        return [simulate(HILL, SearchParams(), Conditions(80, workers, pending=pending), seed) for seed in range(5)]

    assert ends("counted", 1) == ends("loss", 1) == ends("ignored", 1)
    assert len({str(ends(pending, 16)) for pending in ("counted", "loss", "ignored")}) == 3


def test_a_policy_that_builds_on_what_it_found_beats_the_control():
    holes = synthetic_spaces()[2]

    def mean(policy: str) -> float:
        return sum(simulate(holes, SearchParams(policy=policy), Conditions(), seed)[-1] for seed in range(30)) / 30

    assert mean("greedy") > mean("independent") + 0.03


def test_a_step_takes_little_work_and_twice_the_steps_little_more_than_twice():
    def calls(steps: int) -> int:
        space = synthetic_spaces()[0]
        return calls_of(lambda: simulate(space, SearchParams(reward="log"), Conditions(steps, 16), 0))

    assert calls(100) < 100 * 400 and calls(200) < 3 * calls(100)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"workers": 0}, {"pending": "lost"}])
def test_conditions_that_cannot_be_met_are_refused(wrong):
    with pytest.raises(ValueError, match=r"1 or more|must be one of"):
        Conditions(**wrong)
