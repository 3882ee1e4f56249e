"""Kernels side by side: what may be compared, what is said instead, the difference, files, and nonsense."""

from __future__ import annotations

import csv
import io
import re
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from judge.bench.processes.artefacts import artefact_key
from judge.evaluations.services import case_of
from judge.values import SpeedCall
from search.rechecks.models import Recheck
from search.rechecks.services import recheck_run
from search.records.models import Proposal, Run
from tests.pages import client_of
from tests.search.fakes import FakeBench, raced
from tests.search.kernel_rows import REPORT, gpu_run, kernel, key
from tests.search.live_rows import grow, reserve
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return gpu_run()


@pytest.fixture
def viewer() -> Client:
    return client_of("viewer")


def page(client: Client, query: str, status: int = 200) -> str:
    answer = client.get(f"/compare?{query}")
    assert answer.status_code == status
    return unescape(answer.content.decode())


def plain(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_numbers_stand_beside_each_other_with_the_ratio_to_the_baseline(run, viewer):
    first, second = kernel(run, 2.0), kernel(run, 3.0)
    raced = {"value": 1.48, "low": 1.47, "high": 1.49, "n": 9, "basis": "measured"}
    second.evaluation.report = {"versus_incumbent": raced}
    second.evaluation.save()
    text = plain(page(viewer, f"k={key(first)}&k={key(second)}"))
    assert "Paired with the previous best — 1.48× [1.47–1.49] n=9 measured" in text
    assert "2.00× [1.98–2.02]" in text and "3.00× [2.97–3.03]" in text
    assert "1.50× [1.47–1.53] n=7 measured of the baseline: faster" in text
    assert "0.67× [0.65–0.68]" in plain(page(viewer, f"k={key(first)},{key(second)}&base={key(second)}"))


def test_intervals_that_reach_each_other_decide_nothing(run, viewer):
    first, second = kernel(run, 2.0, spread=0.1), kernel(run, 2.1, spread=0.1)
    assert "of the baseline: inconclusive" in plain(page(viewer, f"k={key(first)},{key(second)}"))


def test_numbers_of_another_device_problem_or_basis_are_not_compared(run, viewer):
    here = kernel(run, 2.0)
    for other, why in (
        (kernel(gpu_run(device="cuda:1"), 3.0), "another device"),
        (kernel(gpu_run("gelu"), 3.0), "another problem"),
        (kernel(make_run(), 3.0), "another device"),
        (kernel(run, 3.0, basis="reported"), "another basis: reported against measured"),
        (reserve(run), "not judged"),
    ):
        text = plain(page(viewer, f"k={key(here)},{key(other)}"))
        assert f"Not comparable with A: {why}." in text
        assert "of the baseline" not in text, why


def test_modelled_numbers_say_so_and_claim_no_winner(viewer):
    run = make_run()
    text = plain(page(viewer, f"k={key(kernel(run, 2.0, 0.3))},{key(kernel(run, 2.2, 0.3))}"))
    assert text.count("MODELLED") >= 4 and "within the model's range" in text


def test_another_toolchain_is_said_and_compared(run, viewer):
    first, second = kernel(run, 2.0), kernel(run, 3.0, toolchain="torch 2.12.0")
    text = plain(page(viewer, f"k={key(first)},{key(second)}"))
    assert "Judged with another toolchain." in text and "of the baseline: faster" in text


def test_resources_rounds_and_what_is_behind_them_are_rows(run, viewer):
    first, second = kernel(run, 2.0, report=REPORT), kernel(run, 3.0, report={"kernels": REPORT["kernels"][:1]})
    text = plain(page(viewer, f"k={key(first)},{key(second)}"))
    for shown in (
        "Registers per thread, at most 96 38 −58",
        "Shared memory, at most 2 KiB 2 KiB equal",
        "Register spills 8 0 −8",
        "Launches 2 1 −1",
        "Sealed cases 3 right",
        "error 0.3 of 0.0001 allowed",
        "1 of 2 layers active",
        "412 differ",
        "not run",
    ):
        assert shown in text, shown


def test_two_rounds_of_one_name_are_two_rows(run, viewer):
    rows = [{"case": "plain", "family": "normal", "ok": True, "error": error, "allowed": 1} for error in (0.25, 0.5)]
    first, second = kernel(run, 2.0, report={"cases": rows}), kernel(run, 3.0, report={"cases": rows[:1]})
    text = plain(page(viewer, f"k={key(first)},{key(second)}"))
    assert "agrees 0.25 of 1 agrees 0.25 of 1" in text and "agrees 0.5 of 1 not run" in text


def test_each_source_is_shown_against_the_baseline_and_folds_keep_the_page(run, viewer):
    body = "".join(f"x{number} = {number}\n" for number in range(40))
    nodes = [kernel(run, 2.0, source=body.replace("= 20", f"= {value}")) for value in (20, 21, 22)]
    html = page(viewer, "&".join(f"k={key(node)}" for node in nodes))
    assert html.count('class="difference"') == 2 and 'id="diff-b"' in html and 'id="diff-c"' in html
    fold = re.search(r'<a id="diff-b-fold-1" href="([^"]+)"', html)
    assert fold
    opened = page(viewer, fold[1].split("?")[1].split("#")[0])
    assert opened.count("17 equal lines") == 2 and opened.count("Fold 17 equal lines") == 1
    assert "diff-d" not in opened and f"base={key(nodes[0])}" in fold[1]


def test_prompts_and_ptx_are_compared_where_they_are_stored(run, viewer, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    first, second = kernel(run, 2.0), kernel(run, 3.0)
    query = f"k={key(first)},{key(second)}"
    assert "No prompt of A and B is stored" in plain(page(viewer, f"{query}&pane=prompt"))
    for node, words in ((first, "Write it."), (second, "Write it well.")):
        Proposal.objects.create(node=node, proposer="openai", prompt=words)
    assert "+1 −1 lines against" in plain(page(viewer, f"{query}&pane=prompt"))
    assert "has no PTX of A and B" in plain(page(viewer, f"{query}&pane=ptx"))
    for node, text in ((first, ".reg .b32 %r<9>;"), (second, ".reg .b32 %r<7>;<script>")):
        evaluation = node.evaluation
        assert evaluation
        case = case_of(run.problem, run.device)
        name = artefact_key(evaluation.source, run.problem.spec(case).hash, case)
        folder = tmp_path / "artefacts" / "torch_2.13.0_triton_3.7.1_sm_90" / "kernels" / name / "cache" / ("A" * 32)
        folder.mkdir(parents=True)
        (folder / "k.ptx").write_text(text)
        (folder / "link.ptx").symlink_to("/etc/hostname")
        (folder / "k.json").write_text(f'{{"num_warps": {node.number}, "name": "k"}}')
        (folder / "odd.json").write_text("[" * 100_000)
    answer = viewer.get(f"/compare?{query}&pane=ptx").content.decode()
    options = plain(page(viewer, f"{query}&pane=options"))
    assert "num_warps = 1" in options and "num_warps = 2" in options and "+1 −1 lines" in options
    assert "%r&lt;" in answer and "<script>" not in answer and "// link.ptx" not in answer


def test_the_table_of_a_search_ticks_without_scripts(run, viewer):
    node = kernel(run, 2.0)
    html = viewer.get(f"/s/{run.pk}/?tab=table").content.decode()
    assert f'form="compare-form" name="k" value="{key(node)}"' in html
    assert f'value="{run.pk}.0"' not in html  # the start is no kernel
    assert '<form id="compare-form" method="get" action="/compare"' in html


def test_swap_removal_and_the_baseline_are_links(run, viewer):
    nodes = [kernel(run, 2.0 + place) for place in range(3)]
    a, b, c = map(key, nodes)
    html = page(viewer, f"k={a},{b},{c}&pane=prompt")
    assert f'href="/compare?k={b},{a},{c}&base={b}&pane=prompt" data-key-here="s"' in html
    assert f'href="/compare?k={a},{b},{c}&base={c}&pane=prompt" data-key-here="3"' in html
    assert f'href="/compare?k={b},{c}&pane=prompt"' in html  # the first without the baseline it was


def test_files_hold_the_numbers_with_basis_and_reason(run, viewer):
    first, second, third = kernel(run, 2.0), kernel(run, 3.0, report=REPORT), kernel(gpu_run("=gelu"), 3.0)
    query = f"k={key(first)},{key(second)},{key(third)}"
    document = viewer.get(f"/compare?{query}&as=json").json()
    assert document["baseline"] == key(first)
    assert document["kernels"][1]["figures"]["speedup_ratio"]["value"] == pytest.approx(1.5)
    assert document["kernels"][2]["not_comparable"] == "another problem"
    assert "speedup_ratio" not in document["kernels"][2]["figures"]
    rows = list(csv.DictReader(io.StringIO(viewer.get(f"/compare?{query}&as=csv").content.decode())))
    ratio = next(row for row in rows if row["metric"] == "speedup_ratio")
    assert (ratio["kernel"], ratio["baseline"], ratio["basis"]) == (key(second), key(first), "measured")
    assert not any(value.startswith("=") for row in rows for value in row.values())


def test_without_two_kernels_the_page_says_how_to_tick_them(run, viewer):
    assert "Tick two kernels" in page(viewer, "")
    html = page(viewer, f"k={key(kernel(run, 2.0))}")
    assert "Tick one more" in html and "lines against" not in html


def test_nonsense_is_answered_with_what_to_write(run, viewer):
    node, other = kernel(run, 2.0), kernel(run, 3.0)
    for query, said in (
        ("k=banana", "'banana' is not a kernel. Use search.node, such as 12.3."),
        (f"k={key(node)}&k=99.1", "There is no node 1 in a search 99."),
        (f"k={key(node)},{key(other)}&base=1.99", "The baseline '1.99' is none of these kernels"),
        ("k=" + ",".join(f"{run.pk}.{number}" for number in range(6)), "6 kernels were given; the first 4 are shown."),
        ("k=" + "9" * 40 + ".1", "is not a kernel"),
        ("k=%00%3Cscript%3E", "is not a kernel"),
    ):
        html = page(viewer, query, 422)
        assert said in html and "<script>" not in viewer.get(f"/compare?{query}").content.decode()
    same = page(viewer, f"k={key(node)},{key(node)}")
    assert "Tick one more" in same
    page(viewer, f"k={key(node)},{key(other)}&pane=x&view=x&ws=x&open=a,b,-1&openB=9&as=exe&large=1")


def test_nodes_without_source_or_verdict_have_a_column(run, viewer):
    waiting = reserve(run)
    html = page(viewer, f"k={run.pk}.0,{key(waiting)}")
    assert "not judged" in html and "No source is stored for A and B" in plain(html)
    grow(run, speedup=None)


def test_more_kernels_cost_no_more_queries(run, viewer):
    nodes = [kernel(run, 2.0 + place, report=REPORT) for place in range(4)]
    counts = []
    for many in (2, 4):
        with CaptureQueriesContext(connection) as queries:
            page(viewer, "k=" + ",".join(map(key, nodes[:many])))
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_a_pair_is_raced_from_the_page_and_its_verdict_is_shown_with_its_interval(viewer, monkeypatch):
    monkeypatch.setattr("search.records.queue.send", lambda follow_ups: None)
    search = gpu_run("gelu", steps=9)
    one, other = kernel(search, 2.0, spread=0.1), kernel(search, 2.05, spread=0.1)
    operator, path = client_of("operator"), f"/compare?k={key(one)},{key(other)}"
    assert f'action="/s/{search.pk}/n/{other.number}/race"' in operator.get(path).content.decode()
    assert "/race" not in viewer.get(path).content.decode()
    body = {"key": "k", "rival": key(one), "back": path}
    assert operator.post(f"/s/{search.pk}/n/{other.number}/race", body)["Location"] == path
    assert "Waiting for its device" in viewer.get(path).content.decode()
    recheck_run(recheck_id=Recheck.objects.get().pk, bench_for=FakeBench({0: raced(1.05, SpeedCall.FASTER)}))
    html = viewer.get(path).content.decode()
    assert "FASTER" in html and "[1.04–1.06]" in html and "n=60" in html
    (found,) = viewer.get(f"{path}&as=json").json()["races"]
    assert (found["first"], found["second"], found["call"]) == (key(other), key(one), "FASTER")


def test_names_of_columns_live_in_the_address_and_in_the_files(viewer):
    search = gpu_run("gelu", steps=9)
    one, other = kernel(search, 2.0), kernel(search, 3.0)
    path = f"/compare?k={key(one)},{key(other)}&name-{key(one)}=%3Cb%3Etiles"
    html = viewer.get(path).content.decode()
    assert "&lt;b&gt;tiles" in html and "<b>tiles" not in html
    swap = re.search(r'id="swap" href="([^"]+)"', html)[1]
    assert f"name-{key(one)}=" in swap
    assert viewer.get(f"{path}&as=json").json()["kernels"][0]["name"] == "<b>tiles"
    assert "not stored" in viewer.get(f"{path}&pane=sass").content.decode()


def test_modelled_kernels_say_why_they_are_not_raced(viewer):
    search = make_run()
    one, other = kernel(search, 2.0, 0.3), kernel(search, 3.0, 0.3)
    html = viewer.get(f"/compare?k={key(one)},{key(other)}").content.decode()
    assert "times are modelled, not measured" in html
