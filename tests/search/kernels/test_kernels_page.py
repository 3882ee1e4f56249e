"""The list of winners: who leads, who ties, what is kept apart, filters, pages, files, empty states."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from judge.problems.models import Problem
from judge.values import Basis
from search.kernels import winners as kernels
from search.kernels.winners import Wanted, marked_rows, winners
from search.records.models import Node
from tests.pages import HOSTILE, client_of
from tests.search.kernel_rows import REPORT, gpu_run, kernel, key
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db
MEASURED = Wanted(Basis.MEASURED)


@pytest.fixture
def viewer() -> Client:
    return client_of("viewer")


def page(client: Client, query: str = "", status: int = 200) -> str:
    answer = client.get(f"/kernels/?{query}")
    assert answer.status_code == status
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())


def leaders(wanted: Wanted = MEASURED) -> list[str]:
    return [key(row.leader.node) for row in winners(wanted).rows]


def test_the_fastest_audited_kernel_of_each_problem_and_device_leads(viewer):
    run, other = gpu_run(), gpu_run(device="cuda:1")
    kernel(run, 2.0)
    best = kernel(run, 3.0, report=REPORT)
    kernel(run, 9.0, audit="failed")
    elsewhere, gelu = kernel(other, 5.0), kernel(gpu_run("gelu"), 4.0)
    assert leaders() == [key(gelu), key(best), key(elsewhere)]
    text = page(viewer)
    assert "3.00× [2.97–3.03] n=7 measured fastest" in text and "9.00×" not in text
    assert "sealed cases: 3 right · error 0.3 of 0.0001" in text


def test_kernels_whose_intervals_reach_each_other_are_tied_and_nobody_wins(viewer):
    run = gpu_run()
    kernel(run, 2.0, spread=0.1)
    kernel(run, 2.1, spread=0.1)
    kernel(gpu_run(), 2.05, spread=0.1, source="x = 5\n")  # of another search
    kernel(run, 1.0)
    (row,) = winners(MEASURED).rows
    assert row.is_tied and row.tied_count == 2
    text = page(viewer)
    assert "tied with 2 others" in text and "fastest" not in text.split("Download")[0].split("Status")[1]
    assert "0 decided, 1 tied" in text


def test_a_kernel_that_nobody_audited_leads_nowhere_but_leaves_the_race_open(viewer):
    run = gpu_run()
    best = kernel(run, 2.0)
    kernel(run, 2.01, audit="")
    (row,) = winners(MEASURED).rows
    assert row.leader.node.pk == best.pk and row.tied_count == 1
    assert "not audited" in page(viewer)


def test_sealed_cases_that_the_problem_does_not_have_were_not_passed(viewer):
    kernel(
        gpu_run(), 2.0, report={"stages": [{"name": "audit.sealed", "state": "ok", "detail": "the problem has none"}]}
    )
    assert "no sealed cases" in page(viewer)


def test_the_same_kernel_found_twice_ties_with_nobody():
    first = kernel(gpu_run(), 2.0, spread=0.1, source="x = 1\n")
    kernel(gpu_run(), 2.01, spread=0.1, source="x = 1  # again\n")
    (row,) = winners(MEASURED).rows
    assert not row.is_tied and row.leader.evaluation.candidate_hash == first.source_hash


def test_bases_never_mix(viewer):
    kernel(gpu_run(), 2.0)
    kernel(make_run(), 7.0, 0.2)
    kernel(gpu_run("gelu"), 8.0, basis="reported", audit="", speedup_low=None, speedup_high=None)
    for basis, shown, hidden in (
        ("measured", "2.00×", ("7.0×", "8.00×")),
        ("modelled", "7.0×", ("2.00×", "8.00×")),
        ("reported", "8.00×", ("2.00×", "7.0×")),
    ):
        text = page(viewer, f"basis={basis}")
        assert shown in text and not any(other in text for other in hidden)
    assert "MODELLED These times come from a model" in page(viewer, "basis=modelled")
    reported = page(viewer, "basis=reported")
    assert "reported, not measured here" in reported and "highest reported" in reported
    assert not viewer.get("/kernels/?basis=reported&as=json").json()[0]["decided"]


def test_without_a_measured_kernel_the_modelled_ones_are_shown_first(viewer):
    kernel(make_run(), 7.0, 0.2)
    assert "7.0×" in page(viewer)
    assert "No kernel has been measured" in page(viewer, "basis=measured")


def test_a_degenerate_problem_is_flagged_and_left_out_of_the_counts(viewer):
    kernel(gpu_run(), 2.0)
    run = gpu_run("gelu")
    kernel(run, 90.0)
    Problem.objects.filter(pk=run.problem_id).update(state="degenerate")
    text = page(viewer)
    assert "degenerate problem" in text
    assert "1 decided, 0 tied; 1 of degenerate problems left out of these counts" in text


def test_filters_are_in_the_address_and_combine(viewer):
    kernel(gpu_run(), 2.0)
    run = gpu_run("gelu", "cuda:1")
    kernel(run, 3.0)
    helped = kernel(run, 4.0)
    Node.objects.filter(pk=helped.pk).update(touched=True)
    Problem.objects.filter(pk=run.problem_id).update(policy={"dtype": "bfloat16"})
    assert "4.00×" in page(viewer, "problem=gel") and "2.00×" not in page(viewer, "problem=gel")
    assert "manual influence" in page(viewer, "problem=gel").replace("&#x27;", "'")
    assert "3.00×" in page(viewer, "unassisted=1&device=cuda:1") and "4.00×" not in page(viewer, "unassisted=1")
    assert "2.00×" not in page(viewer, "dtype=bfloat16") and "4.00×" not in page(viewer, "dtype=given")
    assert "No kernel matches" in page(viewer, "problem=gelu&device=cuda:0")


def test_every_kernel_can_be_ticked_and_taken_home(viewer):
    node = kernel(gpu_run(), 2.0)
    html = viewer.get("/kernels/").content.decode()
    assert f'name="k" value="{key(node)}"' in html and 'action="/compare"' in html
    for link in re.findall(r'href="([^"]+)" download', html):
        assert viewer.get(link.replace("&amp;", "&")).status_code == 200, link
    stem = re.search(r"from (\w+) import ModelNew", html)
    file = viewer.get(f"/s/{node.run_id}/n/{node.number}/kernel.py")["Content-Disposition"]
    assert stem and f"{stem[1]}.py" in file


def test_pages_follow_each_other_without_gap_or_repeat(viewer, monkeypatch):
    monkeypatch.setattr(kernels, "PAGE", 2)
    nodes = [kernel(gpu_run(f"p{place}"), 2.0) for place in range(5)]
    seen, path = [], "/kernels/"
    while path:
        html = viewer.get(path).content.decode()
        seen += re.findall(r'name="k" value="([^"]+)"', html)
        more = re.search(r'href="([^"]+)">More problems', html)
        path = more[1].replace("&amp;", "&") if more else ""
    assert seen == [key(node) for node in nodes]
    assert len(viewer.get("/kernels/?as=json").json()) == 5


def test_a_tie_counts_also_where_there_are_too_many_to_name(viewer, monkeypatch):
    monkeypatch.setattr(kernels, "MOST_TIED", 1)
    for name in ("gelu", "relu"):
        for _ in range(3):
            kernel(gpu_run(name), 2.0, spread=0.1, source=f"x = {Node.objects.count()}\n")
    assert [row.tied_count for row in winners(MEASURED).rows] == [2, 2]
    assert "and more" in page(viewer)


def test_many_devices_end_a_page_between_problems(monkeypatch):
    monkeypatch.setattr(kernels, "MOST_ROWS", 3)
    for name in ("a", "b", "c"):
        for device in ("cuda:0", "cuda:1"):
            kernel(gpu_run(name, device), 2.0)
    first = winners(MEASURED)
    assert [row.problem.slug for row in first.rows] == ["a", "a"] and first.after
    assert [row.problem.slug for row in kernels.all_winners(MEASURED, 100)] == ["a", "a", "b", "b", "c", "c"]


def test_files_say_who_is_tied_and_on_what_basis(viewer):
    run = gpu_run("=gelu")
    kernel(run, 2.0, spread=0.1)
    top = kernel(run, 2.1, spread=0.1)
    (row,) = viewer.get("/kernels/?as=json").json()
    assert (row["decided"], row["tied_count"], row["leader"]["kernel"]) == (False, 1, key(top))
    assert row["leader"]["basis"] == "measured" and row["leader"]["low"] == pytest.approx(1.89)
    (line,) = csv.DictReader(io.StringIO(viewer.get("/kernels/?as=csv").content.decode()))
    assert line["problem"] == "'=gelu" and line["decided"] == "False"


def test_without_kernels_the_page_names_what_runs(viewer):
    assert "No search is running" in page(viewer)
    run = make_run(title=HOSTILE)
    answer = viewer.get("/kernels/").content.decode()
    assert f'href="/s/{run.pk}/"' in answer and "<img" not in answer and "\u202e" not in answer


def test_without_kernels_and_searches_an_operator_is_offered_to_start_one(viewer):
    assert "No search is running. An operator can start one." in page(viewer)
    html = client_of("operator").get("/kernels/").content.decode()
    assert re.search(r'No search is running. <a [^>]*href="/new">Start a search</a>', html)


def test_nonsense_is_said_and_changes_nothing_else(viewer):
    node = kernel(gpu_run(), 2.0)
    for query, said in (
        ("basis=imagined", "There is no basis"),
        ("dtype=float3", "There is no data type"),
        ("device=cuda:9", "There is no device"),
    ):
        assert said in page(viewer, query, 422)
    for query in (
        "after=-1",
        "after=x",
        "after=999999",
        "problem=%00",
        f"after={node.pk}&as=exe",
        "problem=" + "a" * 500,
    ):
        page(viewer, query)


def test_more_kernels_cost_no_more_queries(viewer):
    counts = []
    for more in (1, 6):
        for place in range(more):
            run = gpu_run(f"p{more}-{place}")
            kernel(run, 2.0, spread=0.1)
            kernel(run, 2.1, spread=0.1)
        with CaptureQueriesContext(connection) as queries:
            page(viewer)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_kernels_with_a_mark_are_counted_by_their_own_index():
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")  # of an empty table it reads everything otherwise
    assert "evaluation_marked" in marked_rows().filter(speedup__isnull=False).explain()
