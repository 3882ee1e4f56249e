"""What the laboratory says: intervals, paired differences, and when two cannot be told apart."""

from __future__ import annotations

import json

import numpy as np
import pytest

from search.lab.experiment import Findings, Plan, contender_of, contenders_of
from search.lab.results import ALL, SAME, Estimate, difference_of, estimate, result_document, tables
from tests.search.lab_spaces import HILL, explored


def test_an_interval_holds_the_mean_and_narrows_with_more_seeds():
    values = np.random.default_rng(1).normal(0.5, 0.1, 400)
    few, many = estimate(values[:20]), estimate(values)
    assert few.low < few.value < few.high
    assert many.high - many.low < few.high - few.low
    assert abs((many.high - many.low) - 2 * 1.96 * 0.1 / 20) < 0.005
    assert estimate(values) == many


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.01, 0.02, "better"),
        (-0.02, -0.01, "worse"),
        (-0.01, 0.02, SAME),
        (0, 0, SAME),
    ],
)
def test_a_difference_is_told_from_none_only_when_its_interval_leaves_out_zero(low, high, word):
    assert Estimate((low + high) / 2, low, high, 9).verdict == word


def test_an_estimate_outside_its_interval_is_refused():
    with pytest.raises(ValueError, match="lies within its interval"):
        Estimate(0.5, 0.6, 0.7, 3)


def test_a_document_holds_every_pair_and_survives_json():
    document = result_document(explored(), seconds=1.5)
    assert json.loads(json.dumps(document)) == document
    assert len(document["cells"]) == 1 * 2 * 4  # spaces, workers, contenders: two are always there
    assert not document["partial"] and document["steps_told"] == 8 * 8 * 30
    assert set(document["cells"][0]["figures"]) == {"25", "30", "area"}
    assert document["plan"]["contenders"][0]["name"] == "paper-l2"


def test_differences_are_taken_seed_by_seed():
    findings = explored()
    document = result_document(findings, seconds=1.0)
    mine, theirs = (findings.curves["hill", 4, name][:, -1] for name in ("default", "paper-l2"))
    found = difference_of(document, "default", "hill", 4, "30")
    assert found == Estimate.from_json(estimate(mine - theirs).to_json())
    assert difference_of(document, "paper-l2", "hill", 4, "30") is None


def test_a_contender_beside_itself_cannot_be_told_apart():
    document = result_document(explored(contenders=("paper-l2:w=0.3",)), seconds=1.0)
    found = difference_of(document, "paper-l2:w=0.3", ALL, ALL, "30")
    assert (found.value, found.low, found.high, found.verdict) == (0, 0, 0, "not distinguishable")


def test_another_baseline_turns_the_difference_round():
    plans = (result_document(explored(baseline=name), seconds=1.0) for name in ("paper-l2", "default"))
    others = ("default", "paper-l2")
    ours, theirs = (difference_of(one, name, ALL, ALL, "30") for one, name in zip(plans, others, strict=True))
    assert ours.value == pytest.approx(-theirs.value)


def test_a_stopped_experiment_gives_no_mean_over_what_is_missing():
    findings = explored()
    del findings.curves["hill", 4, "default"]
    document = result_document(findings, seconds=1.0)
    assert document["partial"]
    assert difference_of(document, "default", ALL, ALL, "30") is None
    assert difference_of(document, "default", "hill", 1, "30") is not None
    assert "PARTIAL" in tables(document)


def test_the_tables_name_everybody_and_say_simulated():
    text = tables(result_document(explored(), seconds=1.0))
    assert text.startswith("SIMULATED")
    assert all(f"| {name} |" in text for name in ("paper-l2", "default", "independent", "greedy"))


def test_contenders_are_presets_policies_or_either_with_changes():
    assert contender_of("chain").params.policy == "chain"
    assert contender_of("level3").name == "paper-l3"
    assert contender_of("uct:reward=log,w=0.1").params.w == 0.1
    assert contender_of("default:pending=loss,w=1").pending == "loss"
    assert contender_of("default:alpha=0").params.reward == "log"
    assert [one.name for one in contenders_of(["chain"])] == ["paper-l2", "chain", "independent", "greedy"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("best", "is not a policy"),
        ("uct:w", "name=value"),
        ("uct:w=-1", "w must"),
        ("chain:pending=no", "pending must"),
    ],
)
def test_a_contender_that_cannot_be_read_is_named(text, words):
    with pytest.raises(ValueError, match=words):
        contender_of(text)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": 0}, "seeds must be from 1"),
        ({"workers": (0,)}, "workers must be from 1"),
        ({"steps": 10**6}, "steps must be from 1"),
        ({"spaces": ()}, "needs spaces"),
        ({"spaces": (HILL, HILL)}, "Two spaces are called 'hill'"),
    ],
)
def test_a_plan_that_cannot_be_done_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        Findings(Plan(**{"spaces": (HILL,), "contenders": contenders_of([])} | changes))
