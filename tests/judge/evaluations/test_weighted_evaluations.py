"""A verdict on a problem with weighted cases as it is stored: its samples by case, and what stands beside its mean."""

from __future__ import annotations

import dataclasses
import json

import pytest
from django.db import IntegrityError, transaction

from judge.evaluations.models import CaseMeasurement, Evaluation
from judge.evaluations.services import evaluation_store
from judge.values import (
    Basis,
    CaseState,
    Outcome,
    SpeedCall,
    Speedup,
    Subject,
    Timing,
    Verdict,
    WeightedCase,
)
from judge.values.rebuilding import MALFORMED
from tests.judge.gpu_rows import gpu, problem


def timing(subject: Subject, us: float) -> Timing:
    return Timing(subject, Basis.MEASURED, "cuda_events", (us, us), us, us, us)


def speedup(value: float, call: SpeedCall = SpeedCall.FASTER) -> Speedup:
    return Speedup(value, value * 0.9, value * 1.1, 2, Basis.MEASURED, call=call)


THIN = WeightedCase(
    "thin",
    1.0,
    CaseState.TIMED,
    timings=(timing(Subject.CANDIDATE, 20.0), timing(Subject.EAGER, 10.0)),
    speedup=speedup(0.5, SpeedCall.SLOWER),
)
WEIGHTED = Outcome(
    Verdict.PASS,
    stage="timing",
    loads=True,
    timings=(timing(Subject.CANDIDATE, 10.0), timing(Subject.EAGER, 80.0)),
    speedup=speedup(2.0),
    over_others={"compile": Speedup(3.0, 2.9, 3.1, 2, Basis.MEASURED, Subject.COMPILE)},
    weighted=(
        WeightedCase("gpu", 1.0, CaseState.TIMED, evaluated=True, speedup=speedup(8.0)),
        THIN,
        WeightedCase("odd", 0.0, CaseState.CHECKED),
        WeightedCase("huge", 2.0, CaseState.LEFT_OUT, detail="it is too large"),
    ),
)


def stored(outcome: Outcome = WEIGHTED) -> Evaluation:
    given = {"problem": problem(), "device": gpu(), "source": "class ModelNew: ...", "toolchain": "t"}
    return Evaluation.objects.get(pk=evaluation_store(**given, outcome=outcome).pk)


@pytest.mark.django_db
def test_samples_of_each_case_are_rows_and_leave_the_report():
    found = stored()
    rows = CaseMeasurement.objects.filter(evaluation=found).order_by("subject")
    assert [(row.case, row.subject, row.samples_us, row.median_us) for row in rows] == [
        ("thin", "candidate", [20.0, 20.0], 20.0), ("thin", "eager", [10.0, 10.0], 10.0),
    ]  # fmt: skip
    assert {row.subject: row.median_us for row in found.measurements.all()} == {"candidate": 10.0, "eager": 80.0}
    thin = found.report["weighted"][1]
    assert "samples_us" not in thin["timings"][0] and thin["speedup"]["call"] == "slower"
    assert found.speedup == 2.0, "the mean is the headline"


@pytest.mark.django_db
def test_one_subject_has_one_time_in_a_case():
    found = stored()
    row = found.case_measurements.first()
    row.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        row.save()


@pytest.mark.django_db
def test_what_stands_beside_the_mean_is_of_the_evaluated_case():
    found = stored()
    assert (found.over_fastest, found.fastest) == (3.0, "compile"), "eager took 8 times as long there, not twice"


def test_a_weighted_outcome_crosses_a_file():
    assert Outcome.from_json(WEIGHTED.to_json()) == WEIGHTED
    assert [row.case for row in WEIGHTED.mean_of] == ["gpu", "thin"]


def test_where_a_weighted_case_was_not_timed_the_speedup_is_no_mean():
    alone = dataclasses.replace(WEIGHTED, weighted=(WEIGHTED.weighted[0], WeightedCase("thin", 1.0, CaseState.CHECKED)))
    assert alone.mean_of == ()
    assert dataclasses.replace(WEIGHTED, speedup=None).mean_of == ()


@pytest.mark.parametrize(
    "change",
    [
        {"weight": -1.0},
        {"weight": float("nan")},
        {"weight": "2"},
        {"weight": True},
        {"state": "won"},
        {"state": "checked"},
        {"timings": [dataclasses.asdict(timing(Subject.EAGER, 1.0))] * 2},
        {"evaluated": True},
        {"case": "x" * 300},
        {"case": "\x00"},
        {"case": 7},
        {"speedup": {"value": -1.0}},
        {"more": 1},
    ],
)
def test_a_row_that_cannot_be_is_refused_at_the_door(change):
    document = json.loads(json.dumps(WEIGHTED.to_json()))
    document["weighted"][1] |= change
    with pytest.raises(MALFORMED):
        Outcome.from_json(document)


def test_rows_that_contradict_the_verdict_are_refused():
    with pytest.raises(ValueError, match="only a pass has timed cases"):
        Outcome(Verdict.WRONG, stage="correctness", reason="value.mismatch", weighted=(THIN,))
    with pytest.raises(ValueError, match="each case has one row"):
        dataclasses.replace(WEIGHTED, weighted=(THIN, THIN))
