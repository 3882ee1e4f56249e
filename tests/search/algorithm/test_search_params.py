"""Parameters check themselves and say what to write."""

from __future__ import annotations

import json
import math

import pytest

from search.algorithm.params import PRESETS, SearchParams
from search.algorithm.ranking import reward


def test_json_and_back_is_the_same_value():
    for params in (preset.params for preset in PRESETS.values()):
        assert SearchParams.from_json(json.loads(json.dumps(params.to_json()))) == params


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"w": -1}, "w must be from 0 to 100"),
        ({"alpha": 1.5}, "alpha must be from 0 to 1"),
        ({"p_large": math.nan}, "p_large must be from 0 to 1"),
        ({"window": 10**400}, "window must be from"),
        ({"window": 2.5}, "window must be a whole number"),
        ({"pool_size": True}, "pool_size must be a whole number"),
        ({"policy": "best"}, "policy must be one of uct"),
        ({"wight": 1}, "Unknown search parameter wight"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(values, words):
    with pytest.raises(ValueError, match=words):
        SearchParams.from_json(values)


def test_texts_are_read_by_the_type_of_the_parameter():
    params = SearchParams.from_texts(["w=0.5", "window=3", "policy=greedy"])
    assert (params.w, params.window, params.policy) == (0.5, 3, "greedy")


@pytest.mark.parametrize("text", ["w", "=1", "nope=1", "w=fast", "window=1.5"])
def test_a_bad_text_is_refused(text):
    with pytest.raises(ValueError, match=r"name=value|must be a"):
        SearchParams.from_texts([text])


@pytest.mark.parametrize(
    ("loads", "correct", "speedup", "worth"),
    [
        (False, False, None, 0.0),
        (True, False, None, 0.05),
        (True, True, 0.01, 0.4),
        (True, True, 1.0, 0.4 + 1.2 * 0.9 / 9.9),
        (True, True, 900.0, 1.6),
        (True, True, None, 0.4),
    ],
)
def test_reward_is_that_of_the_publication(loads, correct, speedup, worth):
    assert reward(loads=loads, correct=correct, speedup=speedup) == pytest.approx(worth)
