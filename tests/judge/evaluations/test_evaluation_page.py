"""The page of one evaluation and its samples as files."""

from __future__ import annotations

import csv
import io

import pytest
from django.urls import reverse

from judge.evaluations.models import Evaluation
from judge.values import Gradients, Policy
from tests.judge.gpu_rows import flagged, gpu, judged, passed, problem
from tests.pages import client_of

pytestmark = pytest.mark.django_db


def page(evaluation: Evaluation) -> str:
    return client_of("viewer").get(reverse("evaluation-detail", args=[evaluation.pk])).content.decode()


def test_everything_behind_a_measured_pass_is_there():
    html = page(passed(problem(), gpu(), 243.7))
    for text in (
        "1.84×", "n=64", "faster: the whole interval is beyond 1 %", "ambiguous: the paired measurements",
        "previous best", "audited", "Repeated in a fresh process", "Sealed cases", "time.trusted",
        "Confirmed by the judge&#x27;s own clock", "at::native::vectorized_elementwise_kernel", "22 %", "softmax_rows",
        "adversarial", "8e-08", "landlock", "unavailable", "torch 2.11.0 triton 3.6.0 sm_90", "judge/",
    ):  # fmt: skip
        assert text in html, text
    assert html.count('class="sample"') == 4 * 64
    assert "\\u001b[31m" in html and "\x1b" not in html  # what a candidate prints has no power over a terminal


def test_what_memory_was_planned_is_said_in_words_and_sizes():
    one = passed(problem(), gpu(), 243.7)
    plan = {"inputs_bytes": 76800, "lean": False, "room_bytes": None, "oracle": "whole, in fp64"}
    one.report["environment"] = {
        "memory": {**plan, "reached_bytes": {"referee": 3 << 30, "evil": {"<b>": [1]}}},
        "toolchain_bytes": "<i>",
    }
    one.save()
    html = page(one)
    assert "inputs: 75 KiB; lean: no; oracle: whole, in fp64; reached: (referee: 3 GiB; evil: {" in html
    assert "<b>" not in html.split("inputs: 75 KiB")[1].split("</dd>")[0] and "<dd>&lt;i&gt;</dd>" in html


def test_a_comparison_whose_processes_contradict_each_other_is_unstable():
    one = passed(problem(), gpu(), 243.7)
    one.report["versus_incumbent"]["call"] = "unstable"
    one.save()
    html = page(one)
    assert "unstable: measurements in fresh processes contradict each other" in html
    assert "ambiguous: the paired measurements" not in html


def test_a_failure_says_where_it_ended_and_shows_no_speed():
    html = page(judged(problem(), gpu(), "wrong"))
    assert "value.mismatch" in html and "RMS error 0.3" in html and "Only passing kernels that would" in html
    assert 'id="speed-title"' not in html and 'id="samples-title"' not in html


def test_numbers_of_a_degenerate_problem_are_marked_beside_them():
    html = page(passed(flagged(), gpu(), 28.7))
    head = html.split("</header>")[1]
    assert "degenerate problem" in head and "excluded from comparisons and aggregates" in html


def test_hostile_texts_are_escaped():
    evil = "<script>alert(1)</script>\u202e"
    changes = {
        "log": evil,
        "findings": [{"code": evil, "message": evil}],
        "environment": {evil: evil},
        "kernels": [{"name": evil, "error": evil}],
        "stages": [{"name": "smoke", "state": "failed", "wall_ms": 1.0, "detail": evil, "fix": evil}],
        "cases": [{"case": evil, "family": "given", "ok": False, "detail": evil}],
    }
    evaluation = judged(problem(), gpu(), "wrong", message=evil, reason=evil[:40], report=changes)
    html = page(evaluation)
    assert "<script>alert" not in html and "\u202e" not in html


def test_samples_leave_as_csv_and_as_json_with_what_they_are_worth():
    evaluation = passed(flagged(), gpu(), 28.7)
    viewer = client_of("viewer")
    answer = viewer.get(reverse("evaluation-samples-csv", args=[evaluation.pk]))
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert "attachment" in answer["Content-Disposition"] and len(rows) == 4 * 64
    stored = evaluation.measurements.get(subject="candidate").samples_us
    assert [float(row["us"]) for row in rows if row["subject"] == "candidate"] == stored
    found = viewer.get(reverse("evaluation-samples-json", args=[evaluation.pk])).json()
    assert found["problem"]["state"] == "degenerate"
    assert found["problem"]["flags"] == ["problem.dead_ops", "problem.collapses"]
    assert [row["subject"] for row in found["measurements"]] == ["candidate", "incumbent", "eager", "compile"]
    assert found["measurements"][0]["samples_us"] == stored and found["audit"] == "passed"


def test_nothing_is_there_for_a_number_that_is_not():
    for name in ("evaluation-detail", "evaluation-samples-csv", "evaluation-samples-json"):
        assert client_of("viewer", name).get(reverse(name, args=[999])).status_code == 404


def test_the_page_costs_few_queries(django_assert_max_num_queries):
    evaluation = passed(problem(), gpu(), 243.7)
    client = client_of("viewer")
    with django_assert_max_num_queries(17):
        assert client.get(reverse("evaluation-detail", args=[evaluation.pk])).status_code == 200


def test_forward_backward_and_both_are_a_table_and_the_details_say_which_gradients():
    row = problem()
    row.policy = Policy(gradients=Gradients.ALL).to_json()
    row.save()
    parts = {"forward_us": [10.0, 25.0], "backward_us": [-1.0, 60.0], "both_us": [9.0, 85.0], "basis": "measured"}
    found = {"code": "time.parts", "message": "apart", "data": parts}
    odd = {"code": "time.parts", "message": "apart", "data": {"forward_us": "many", "both_us": [1.0]}}
    html = page(judged(row, gpu(), "pass", report={"findings": [found, odd]}))
    assert "of inputs and parameters: forward, then backward to both" in html
    table = html.partition("Forward and backward</caption>")[2].partition("</table>")[0].replace("\xa0", " ")
    assert all(text in table for text in ("10 µs", "25 µs", "2.50×", "60 µs", "unknown", "9.44×"))
    assert html.count("Forward and backward</caption>") == 1
