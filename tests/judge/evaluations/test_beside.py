"""How a verdict stands against the other baselines: what lists are told without opening its report."""

from __future__ import annotations

import importlib

import pytest
from django.apps import apps
from django.db import connection

from judge.evaluations.beside import SAME, Beside, baseline_text, beside
from judge.evaluations.models import Evaluation
from judge.evaluations.services import evaluation_store
from judge.values import ALTERNATIVES, BASELINES, Basis, Outcome, Speedup, Subject, Verdict
from tests.judge.gpu_rows import gpu, passed, problem


def row(value: float, basis: str = "measured") -> dict[str, object]:
    return {"value": value, "low": value, "high": value, "n": 16, "basis": basis}


def stands(shipped: float | None, fastest: float, named: str) -> Beside:
    """As `row` makes them: each with an interval of its own value."""
    ends = [None if value is None else [value, value, 16] for value in (shipped, fastest)]
    return Beside(shipped, fastest, named, *ends)


@pytest.mark.parametrize(
    ("report", "precision", "found"),
    [
        ({"speedup": None}, "", Beside()),
        ({"speedup": row(1.3)}, "", stands(None, 1.3, "eager")),
        ({"speedup": row(1.3)}, "shipped", stands(1.3, 1.3, "eager")),
        ({"speedup": row(1.3), "environment": {"baselines": {"shipped": SAME}}}, "", stands(1.3, 1.3, "eager")),
        ({"speedup": row(1.3), "environment": {"baselines": "forged"}}, "", stands(None, 1.3, "eager")),
        ({"speedup": row(1.3), "speedup_shipped": row(0.6)}, "", stands(0.6, 0.6, "eager-shipped")),
        (
            {"speedup": row(1.3), "speedup_shipped": row(0.6), "speedup_channels_last": row(0.5)},
            "",
            stands(0.6, 0.5, "channels-last"),
        ),
        ({"speedup": row(1.3), "speedup_compile": row(0.5, "modelled")}, "", stands(None, 1.3, "eager")),
        ({"speedup": row(1.3), "speedup_compile": 3}, "", stands(None, 1.3, "eager")),
    ],
)
def test_the_fastest_baseline_is_the_one_with_the_smallest_speedup_over_it(report, precision, found):
    assert beside(report, precision) == found


def test_every_baseline_has_a_name_for_people():
    names = {baseline_text(one.subject) for one in BASELINES.values()}
    assert len(names) == len(BASELINES) and {"eager", "torch.compile"} <= names


@pytest.mark.django_db
def test_a_verdict_is_stored_with_how_it_stands():
    over = {one.name: Speedup(0.9, 0.8, 1.0, 16, Basis.MEASURED, one.subject) for one in ALTERNATIVES}
    over["sdpa"] = Speedup(0.4, 0.3, 0.5, 16, Basis.MEASURED, Subject.SDPA)
    speedup = Speedup(2.0, 1.9, 2.1, 16, Basis.MEASURED)
    outcome = Outcome(Verdict.PASS, stage="timing", loads=True, speedup=speedup, over_others=over)
    given = {"problem": problem(), "device": gpu(), "source": "class ModelNew: ...", "toolchain": "t"}
    found = Evaluation.objects.get(pk=evaluation_store(**given, outcome=outcome).pk)
    assert (found.over_shipped, found.over_fastest, found.fastest) == (0.9, 0.4, "sdpa")
    assert (found.shipped_interval, found.fastest_interval) == ([0.8, 1.0, 16], [0.3, 0.5, 16])
    assert found.report["speedup_channels_last"]["value"] == 0.9


@pytest.mark.django_db
def test_verdicts_from_before_learn_their_fastest_baseline():
    migration = importlib.import_module("judge.migrations.0012_numerics")
    place = problem(), gpu()
    first, second = passed(*place, 50.0), passed(*place, 60.0)
    for evaluation, compiled in ((first, row(0.7)), (second, None)):
        evaluation.report["speedup_compile"] = compiled
        evaluation.save()
    Evaluation.objects.update(fastest="", over_fastest=None)
    migration.fill(apps, connection)
    first.refresh_from_db(), second.refresh_from_db()
    assert (first.fastest, first.over_fastest) == ("compile", 0.7)
    assert (second.fastest, second.over_fastest) == ("eager", second.speedup)


@pytest.mark.django_db
def test_verdicts_from_before_learn_the_intervals_beside_their_speedup():
    migration = importlib.import_module("judge.migrations.0022_beside_intervals")
    evaluation = passed(problem(), gpu(), 50.0)
    eager, compiled, shipped = row(1.3), row(0.7) | {"low": 0.6}, row(0.9) | {"high": 1.1}
    evaluation.report |= {"speedup": eager, "speedup_compile": compiled, "speedup_shipped": shipped}
    evaluation.save()
    for fastest, over_shipped, expected in (
        ("compile", 0.9, ([0.9, 1.1, 16], [0.6, 0.7, 16])),
        ("eager", None, (None, [1.3, 1.3, 16])),
    ):
        Evaluation.objects.update(fastest=fastest, over_shipped=over_shipped, fastest_interval=None)
        migration.fill(apps, connection)
        evaluation.refresh_from_db()
        assert (evaluation.shipped_interval, evaluation.fastest_interval) == expected
