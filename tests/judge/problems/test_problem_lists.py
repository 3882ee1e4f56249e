"""The problem list: filters, order, bests per basis, baselines, and a number of queries that stays the same."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from judge.devices.models import Device
from judge.devices.services import judging_devices
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from judge.problems.queries import problem_page

pytestmark = pytest.mark.django_db


def problem(number: int, **fields: object) -> Problem:
    values = {"title": f"Problem {number}", "origin": "upload", "family": "reductions", "source": "x"} | fields
    return Problem.objects.create(slug=f"p-{number}", source_hash=f"{number:064d}", **values)


def evaluation(of: Problem, device: Device, speedup: float, basis: str) -> Evaluation:
    return Evaluation.objects.create(
        problem=of,
        device=device,
        candidate_hash="0" * 64,
        source="y",
        protocol="judge/1",
        toolchain="t",
        verdict="pass",
        stage="timing",
        speedup=speedup,
        basis=basis,
        audit="passed",
    )


@pytest.fixture
def interpreter() -> Device:
    return Device.objects.create(name="interpreter", kind="interpreter", title="I")


@pytest.fixture
def gpu() -> Device:
    return Device.objects.create(name="cuda:0", kind="cuda", title="G")


def test_every_word_must_be_found_in_title_slug_or_family() -> None:
    problem(1, title="Row softmax")
    problem(2, title="Row sums")
    assert [row.slug for row in problem_page(q="softmax reduc").rows] == ["p-1"]


def test_state_origin_and_family_filter_and_nonsense_does_not() -> None:
    problem(1, state="refused", origin="sample", family="matmul")
    problem(2)
    assert [row.slug for row in problem_page(state="refused").rows] == ["p-1"]
    assert [row.slug for row in problem_page(origin="sample", family="matmul").rows] == ["p-1"]
    assert problem_page(state="'; drop", origin="?").total == 2


def test_the_best_of_each_basis_is_shown_apart(interpreter: Device, gpu: Device) -> None:
    row = problem(1)
    for speedup in (1.5, 9.0):
        evaluation(row, interpreter, speedup, "modelled")
    evaluation(row, gpu, 2.0, "measured")
    (shown,) = problem_page().rows
    assert {best.basis: best.speedup for best in shown.bests} == {"modelled": 9.0, "measured": 2.0}


def test_baselines_come_from_the_preflight_of_each_device(interpreter: Device, gpu: Device) -> None:
    problem(1, admission={"cuda:0": {"state": "admitted", "eager_us": 12.5}, "interpreter": {"eager_us": None}})
    assert problem_page().rows[0].baselines == {"cuda:0": 12.5}


def test_sorting_and_truncation_keep_the_total() -> None:
    for number in range(5):
        problem(number, title=f"T{9 - number}")
    page = problem_page(sort="title", limit=2)
    assert [row.title for row in page.rows] == ["T5", "T6"] and page.total == 5
    assert problem_page(sort="newest").rows[0].slug == "p-4"


def test_the_number_of_queries_does_not_grow(interpreter: Device, gpu: Device) -> None:
    counts = []
    for number in (1, 10):
        for index in range(number):
            evaluation(problem(number * 100 + index), gpu, 2.0, "measured")
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert problem_page().rows[0].searches == 0
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 4


def test_the_interpreter_comes_first_and_external_devices_never(interpreter: Device, gpu: Device) -> None:
    Device.objects.create(name="external:A", kind="external", title="E")
    Device.objects.create(name="cuda:1", kind="cuda", title="G", state="quarantined")
    assert list(judging_devices()) == [interpreter, gpu]
