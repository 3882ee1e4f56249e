"""Reports over rows: bases apart, degenerate problems named and left out, audited beside judged."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from judge.devices.models import Device
from judge.problems.models import Problem
from judge.values import text_hash
from search.interchange.imports import search_import
from search.records.models import Node, Run
from search.reports.build import report_of, report_runs
from search.reports.page import notes, report_csv, report_html, report_json, report_text
from tests.pages import client_of
from tests.search.makers import make_device
from tests.search.recorded import packed, quick_hashes, step  # noqa: F401

pytestmark = pytest.mark.django_db


def problem(name: str, state: str = "admitted") -> Problem:
    return Problem.objects.create(
        slug=name, title=name, source=name, source_hash=text_hash(name), origin="import", state=state
    )


def gpu() -> Device:
    return Device.objects.get_or_create(name="cuda:0", kind="cuda", title="NVIDIA H200", arch="sm_90")[0]


def searched(on: Problem, *kernels: dict | None, device: Device | None = None, **changes) -> Run:
    """An ended search whose nodes 1, 2, ... are these kernels; None is a failure."""
    device = device or gpu()
    run = Run.objects.create(
        problem=on, device=device, **{"proposer": "builtin", "steps": len(kernels), "state": "finished"} | changes
    )
    root = Node.objects.create(run=run, number=0, kind="root", state="told", told_order=0)
    for number, kernel in enumerate(kernels, start=1):
        told = {"verdict": "wrong"} if kernel is None else _passed(device, **kernel)
        evaluation = on.evaluations.create(
            device=device,
            candidate_hash=f"{run.pk}-{number}",
            source="x",
            protocol="judge/3",
            toolchain="t",
            stage="s",
            **told,
        )
        Node.objects.create(
            run=run, number=number, parent=root, kind="large", state="told", told_order=number, evaluation=evaluation
        )
    return run


def _passed(device: Device, speedup: float, audit: str = "passed", over_compile: float | None = None) -> dict:
    basis = device.basis.value
    report = {}
    if over_compile:
        ends = {"low": over_compile * 0.9, "high": over_compile * 1.1, "n": 40}
        report["speedup_compile"] = {"value": over_compile, **ends, "basis": basis}
    found = {"verdict": "pass", "speedup": speedup, "speedup_low": speedup * 0.95, "speedup_high": speedup * 1.05}
    return found | {"speedup_n": 44, "basis": basis, "audit": audit, "loads": True, "report": report}


def report(**options):
    return report_of(report_runs(), title="all", **options)


def figure(block, metric: str, population: str = "judged", over: str = "eager"):
    table = next(one for one in block.tables if (one.population, one.over) == (population, over))
    return next(one for one in table.figures if one.metric == metric)


def test_bases_and_devices_are_never_mixed():
    on = problem("a")
    searched(on, {"speedup": 2.0})
    searched(on, {"speedup": 8.0}, device=make_device())
    search_import(data=packed([step(1, 0, fast_p=5.0)]), name="x.json")
    blocks = report().blocks
    assert [(block.basis.value, block.device) for block in blocks] == [
        ("measured", "cuda:0"),
        ("modelled", "interpreter"),
        ("reported", "external:Test GPU"),
    ]
    assert [figure(block, "speedup").value for block in blocks] == [2.0, 8.0, 5.0]


def test_degenerate_problems_are_named_and_in_no_figure():
    searched(problem("a"), {"speedup": 2.0})
    searched(problem("zero", "degenerate"), {"speedup": 900.0})
    block = report().blocks[0]
    assert block.degenerate == (("zero", "zero"),)
    assert (figure(block, "speedup").value, figure(block, "speedup").n) == (2.0, 1)
    assert "1 degenerate, excluded from all figures: zero." in report_text(report())
    assert "900" not in report_html(report())


def test_the_text_names_the_node_of_a_problem_once():
    run = searched(problem("a"), {"speedup": 2.0})
    assert report_text(report()).count(f"(run {run.pk}, node 1)") == 1


def test_only_audited_bests_count_as_correct_in_the_audited_figures():
    searched(problem("a"), {"speedup": 2.0}, {"speedup": 3.0, "audit": ""})
    searched(problem("b"), {"speedup": 4.0, "audit": ""})
    searched(problem("c"), None)
    block = report().blocks[0]
    assert figure(block, "correct").value == pytest.approx(2 / 3)
    assert figure(block, "correct", "audited").value == pytest.approx(1 / 3)
    assert figure(block, "speedup").value == pytest.approx((3 + 4) / 3)
    assert figure(block, "speedup", "audited").value == pytest.approx(2 / 3)
    assert (block.provisional_only, block.provisional_faster) == (1, 1)


def test_over_torch_compile_unknown_is_left_out_and_counted():
    searched(problem("a"), {"speedup": 2.0, "over_compile": 1.2})
    searched(problem("b"), {"speedup": 2.0})
    searched(problem("c"), None)
    block = report().blocks[0]
    found = figure(block, "speedup", over="compile")
    assert (found.value, found.n) == (pytest.approx(0.6), 2)
    assert next(table.unknown for table in block.tables if table.over == "compile") == 1


def test_several_searches_of_a_problem_count_once():
    on = problem("a")
    searched(on, {"speedup": 2.0})
    searched(on, {"speedup": 6.0})
    best, mean = report().blocks[0], report(rule="mean").blocks[0]
    assert (figure(best, "speedup").value, figure(mean, "speedup").value) == (6.0, 4.0)
    assert (len(best.lines), best.runs, figure(best, "speedup").n) == (1, 2, 1)


def test_a_search_that_has_told_nothing_is_no_failure_yet():
    searched(problem("a"), {"speedup": 2.0}, state="running")
    searched(problem("b"), state="running")
    block = report().blocks[0]
    assert (figure(block, "correct").value, figure(block, "correct").n) == (1.0, 1)
    assert (block.unended, block.unbegun) == (1, 1)


def test_what_is_left_out_is_said_in_whole_sentences():
    searched(problem("a"), {"speedup": 2.0}, state="running")
    for slug in ("b", "c"):
        searched(problem(slug), state="running")
    said = notes(report().blocks[0])
    assert "1 search has not ended and counts as of now." in said
    assert "2 searches have no verdict yet and are excluded from all figures." in said


def test_the_order_of_searches_changes_no_figure():
    for number in range(12):
        searched(problem(f"p{number}"), {"speedup": 1.0 + number / 3})
    runs = report_runs()
    there, back = (report_of(order, title="all").blocks[0].tables for order in (runs, runs[::-1]))
    assert there == back


def test_searches_by_hand_can_be_left_out():
    searched(problem("a"), {"speedup": 2.0})
    searched(problem("b"), {"speedup": 9.0}, proposer="manual")
    found = report(unassisted=True)
    assert (found.assisted_runs, figure(found.blocks[0], "speedup").value) == (1, 2.0)
    assert report().assisted_runs is None  # nobody has counted: not the same as none


@pytest.fixture
def recorded(fixtures_dir, quick_hashes):  # noqa: F811
    """The five recorded searches, imported, and their bests as plain JSON says."""
    bests = {}
    for path in sorted((fixtures_dir / "recorded_searches").glob("*.json.gz")):
        search_import(data=path.read_bytes(), name=path.name)
        steps = json.loads(gzip.decompress(path.read_bytes()))["steps"]
        bests[path.name] = max(row["score"]["fast_p"] for row in steps if row["score"]["correct"])
    return bests


def test_the_recorded_searches_give_the_aggregates_computed_apart(recorded):
    block = report().blocks[0]
    speedups = list(recorded.values())
    capped = [min(speedup, 10) for speedup in speedups]
    expected = {
        "correct": 1.0,
        "speedup": sum(capped) / 5,
        "gm10": math.prod(capped) ** (1 / 5),
        "median": sorted(speedups)[2],
        **{f"fast_{p:g}": sum(s > p for s in speedups) / 5 for p in (0.5, 1, 1.2, 1.5, 2, 3, 5)},
    }
    assert {name: figure(block, name).value for name in expected} == pytest.approx(expected)
    Problem.objects.filter(slug__in=[f"kb-l2-p{number}-200" for number in (18, 42, 44)]).update(state="degenerate")
    left = report().blocks[0]
    assert len(left.degenerate) == 3
    two = [recorded[f"kb-l2-p{number}-200.json.gz"] for number in (63, 70)]
    assert figure(left, "speedup").value == pytest.approx(sum(two) / 2)


def test_the_command_prints_text_json_csv_and_a_page(tmp_path):
    run = searched(problem("a"), {"speedup": 2.0, "over_compile": 1.2})
    texts = {}
    for form in ("", "--json", "--csv"):
        out = StringIO()
        call_command("report", "--runs", str(run.pk), *([form] if form else []), stdout=out)
        texts[form] = out.getvalue()
    assert "2.00× [1.90–2.10] n=44 measured" in texts[""]
    assert json.loads(texts["--json"]) == json.loads(
        json.dumps(report_json(report_of(report_runs(), title=f"Searches {run.pk}")))
    )
    rows = list(csv.DictReader(io.StringIO(texts["--csv"])))
    assert {(row["basis"], row["device"]) for row in rows} == {("measured", "cuda:0")}
    assert len(rows) == 8 * 11
    call_command("report", "--all", "--html", str(tmp_path / "r.html"), stdout=StringIO())
    html = (tmp_path / "r.html").read_text()
    assert "<script" not in html and not re.search(r'(?:src|href)="', html) and "prefers-color-scheme" in html
    assert html.count("<svg") > 2


def test_a_search_that_is_not_there_is_told():
    with pytest.raises(CommandError, match="no search 77"):
        call_command("report", "--runs", "77")
    with pytest.raises(CommandError, match="no campaign 5"):
        call_command("report", "--campaign", "5")


def test_the_page_shows_files_and_says_what_is_wrong_with_the_numbers():
    run, viewer = searched(problem("a"), {"speedup": 2.0}), client_of("viewer")
    html = viewer.get(f"/report/?runs={run.pk}&rule=mean").content.decode()
    assert "2.00×" in html and f"/report/?runs={run.pk}&amp;rule=mean&amp;as=csv" in html
    table = viewer.get("/report/?as=csv")
    assert (table["Content-Type"], table.content.decode()) == ("text/csv; charset=utf-8", report_csv(report()))
    assert viewer.get("/report/?as=json")["Content-Type"] == "application/json"
    for query, said in (("x", "not the number of a search"), ("999", "no search 999")):
        answer = viewer.get(f"/report/?runs={query}")
        assert answer.status_code == 422 and said in answer.content.decode()
    assert "style=" not in html


def test_an_empty_report_is_a_page_too():
    assert "no searches with times" in client_of("viewer").get("/report/").content.decode()
    assert "no searches with times" in report_text(report())
    assert report_csv(report()).count("\n") == 1
