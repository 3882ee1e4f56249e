"""Where a kernel's speedup in each weighted case is shown: its node, its verdict, the API, and files."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from typing import Any

import pytest
from django.urls import reverse

from judge.evaluations.cases import cases_of
from judge.evaluations.models import CaseMeasurement, Evaluation
from search.interchange.exports import kernel_file, proof_zip
from search.records.models import Node
from tests.pages import client_of
from tests.search.export_rows import make_node

pytestmark = pytest.mark.django_db
EVIL = "<b>\u202e"


def times(kernel_us: float, eager_us: float) -> list[dict[str, Any]]:
    return [{"subject": "candidate", "median_us": kernel_us}, {"subject": "eager", "median_us": eager_us}]


def speedup(value: float, call: str = "") -> dict[str, Any]:
    return {"value": value, "low": value * 0.9, "high": value * 1.05, "n": 32, "basis": "measured", "call": call}


def rows() -> list[dict[str, Any]]:
    return [
        {"case": "gpu", "weight": 2.0, "state": "timed", "evaluated": True, "speedup": speedup(4.0, "faster")},
        {"case": "thin", "weight": 1.0, "state": "timed", "timings": times(20, 10), "speedup": speedup(0.5, "slower")},
        {"case": "odd", "weight": 0.0, "state": "checked"},
        {"case": EVIL, "weight": 0.0, "state": "left_out", "detail": EVIL},
    ]


def weighted(found: list[dict[str, Any]] | None = None, **changes: Any) -> Node:
    node = make_node(node={"number": 1})
    row = node.evaluation
    assert row is not None
    report = {**row.report, "timings": times(5, 20), "weighted": rows() if found is None else found}
    given = {"speedup": 2.0, "speedup_low": 1.8, "speedup_high": 2.2, "speedup_n": 32, "basis": "measured"}
    Evaluation.objects.filter(pk=row.pk).update(report=report, **(given | changes))
    summary = {"basis": "measured", "method": "cuda_events", "n": 2, "low_us": 20, "median_us": 20, "high_us": 20}
    CaseMeasurement.objects.create(evaluation=row, case="thin", subject="candidate", samples_us=[20, 20], **summary)
    return Node.objects.get(pk=node.pk)


def texts_of(*addresses: str) -> list[str]:
    client = client_of("viewer")
    return [client.get(address).content.decode() for address in addresses]


def test_the_verdict_and_the_node_show_each_case_and_where_it_loses():
    node = weighted()
    for html in texts_of(
        reverse("evaluation-detail", args=[node.evaluation_id]),
        reverse("node-detail", args=[node.run_id, node.number]),
    ):
        assert "The speedup is the weighted geometric mean over 2 cases." in html
        assert "Other baselines are timed in <bdi>gpu</bdi>." in html
        table = html.split("Speedup in each declared case")[1].split("</table>")[0]
        shown = ("4.00×", "0.50×", "is-slower", "is-correct", "right, not timed", "20 µs", "10 µs", "5 µs")
        assert [text for text in shown if text not in table] == []
        assert "<b>\u202e" not in html


def test_a_kernel_timed_in_one_case_alone_or_in_too_few_says_so():
    alone = [*rows()[:1], {"case": "thin", "weight": 1.0, "state": "checked", "detail": "not timed: slower"}]
    node = weighted(alone)
    client, address = client_of("viewer"), reverse("evaluation-detail", args=[node.evaluation_id])
    html = client.get(address).content.decode()
    assert "The speedup is that of the evaluated case alone." in html and "not timed: slower" in html
    Evaluation.objects.filter(pk=node.evaluation_id).update(speedup=None, speedup_low=None, speedup_high=None)
    html = client.get(address).content.decode()
    assert "Without a time in every weighted case there is no speedup." in html


def test_without_weights_there_is_no_table():
    node = make_node()
    assert cases_of(node.evaluation) is None
    (html,) = texts_of(reverse("evaluation-detail", args=[node.evaluation_id]))
    assert "Speedup in each declared case" not in html


def test_a_range_that_holds_one_decides_nothing_where_it_is_modelled():
    model = {**speedup(1.2), "basis": "modelled", "low": 0.8, "high": 1.9}
    surely = {**speedup(3.0), "basis": "modelled", "low": 1.5, "high": 6.0}
    node = weighted(
        [
            {"case": "a", "weight": 1, "state": "timed", "evaluated": True, "speedup": model},
            {"case": "b", "weight": 1, "state": "timed", "speedup": surely},
            {"case": "c", "weight": 1, "state": "timed", "speedup": {**surely, "low": 0.1, "value": 0.3, "high": 0.9}},
            {"case": "d", "weight": 1, "state": "invented"},
        ]
    )
    found = cases_of(node.evaluation)
    assert found is not None and [row.state for row in found.rows] == ["unclear", "faster", "slower", "unclear"]
    assert [row.name for row in found.slower] == ["c"]


def test_the_api_says_the_same():
    node = weighted()
    (text,) = texts_of(f"/api/v1/searches/{node.run_id}/nodes/{node.number}")
    found = json.loads(text)["weighted_cases"]
    assert [(row["case"], row["weight"], row["state"], row["speedup"]) for row in found[:3]] == [
        ("gpu", 2.0, "faster", 4.0), ("thin", 1.0, "slower", 0.5), ("odd", 0.0, "checked", None),
    ]  # fmt: skip
    assert found[1]["interval"] == {"low": 0.45, "high": 0.525} and found[1]["n"] == 32
    assert (found[0]["evaluated"], found[0]["kernel_us"], found[0]["eager_us"]) == (True, 5.0, 20.0)
    assert (found[1]["kernel_us"], found[1]["eager_us"], found[3]["kernel_us"]) == (20.0, 10.0, None)


def test_files_say_the_numbers_of_each_case():
    node = weighted()
    line = "thin, weight 1: slower, 0.50× [0.45–0.53] n=32 measured, 20 µs against 10 µs of eager"
    assert f"#   case: {line}" in kernel_file(node)[1].decode()
    with zipfile.ZipFile(io.BytesIO(proof_zip(node)[1])) as archive:
        readme, verdict = archive.read("README.txt").decode(), json.loads(archive.read("verdict.json"))
    assert "the weighted geometric mean over 2 cases; other baselines were timed in the first" in readme
    assert line in readme and "\u202e" not in readme
    assert [(row["case"], row["samples_us"]) for row in verdict["case_measurements"]] == [("thin", [20, 20])]


def test_samples_of_cases_are_in_the_files_of_samples():
    node = weighted()
    names = ("evaluation-samples-csv", "evaluation-samples-json")
    lines, document = texts_of(*(reverse(name, args=[node.evaluation_id]) for name in names))
    table = list(csv.reader(io.StringIO(lines)))
    assert table[0][-1] == "case" and [row[-1] for row in table[1:]] == ["", "", "thin", "thin"]
    assert [row["case"] for row in json.loads(document)["case_measurements"]] == ["thin"]
