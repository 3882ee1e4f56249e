"""Problem pages, empty and full."""

from __future__ import annotations

import pytest

from judge.problems.models import Problem
from tests.pages import client_of
from tests.search.makers import make_device, make_problem

pytestmark = pytest.mark.django_db


def test_an_empty_list_says_how_to_get_samples():
    html = client_of("operator").get("/problems/").content.decode()
    assert "seed_samples" in html and 'id="dropzone"' in html


def test_a_filter_that_finds_nothing_offers_the_way_back():
    make_problem()
    html = client_of("viewer").get("/problems/?q=nothing").content.decode()
    assert "No problem matches" in html and 'id="dropzone"' not in html


def test_problems_without_a_family_come_last():
    for name, family in (("aa", ""), ("bb", "norms")):
        problem = make_problem(name)
        Problem.objects.filter(pk=problem.pk).update(family=family)
    html = client_of("viewer").get("/problems/").content.decode()
    assert html.index("Norms") < html.index("Other")


def test_a_refused_problem_leads_to_no_search_and_says_why():
    make_device()
    problem = make_problem()
    problem.admission = {"interpreter": {"state": "refused", "message": "It returns a dict.", "stages": []}}
    problem.state = "refused"
    problem.save()
    operator, to_search = client_of("operator"), f"/new?problem={problem.slug}"
    html = operator.get(f"/problems/{problem.slug}/").content.decode()
    assert to_search not in html
    assert "refused this problem. It returns a dict. Upload" in html.split('id="search-why-not"')[1]
    assert to_search not in operator.get("/problems/").content.decode()
    Problem.objects.update(state="admitted", admission={"interpreter": {"state": "admitted"}})
    assert to_search in operator.get(f"/problems/{problem.slug}/").content.decode()
    assert to_search in operator.get("/problems/").content.decode()


def test_the_page_of_a_problem_shows_source_graph_shapes_and_flag():
    make_device()
    out = {"shape": [4, 8], "dtype": "float32", "stride": [8, 1]}
    nodes = [
        {"name": "x", "op": "input", "target": "0", "args": [], "kwargs": {}, "out": out, "outs": []},
        {"name": "relu", "op": "aten.relu.default", "args": [{"node": "x"}], "kwargs": {}, "out": out, "outs": []},
    ]
    report = {"state": "degenerate", "message": "Always the same.", "stages": [], "graph": {"nodes": nodes}}
    problem = make_problem()
    problem.admission, problem.state = {"interpreter": report | {"flops": 64.0, "inputs": [out]}}, "degenerate"
    problem.save()
    html = client_of("viewer").get(f"/problems/{problem.slug}/").content.decode()
    for text in (
        "aten.relu.default",
        "4×8",
        "Always the same.",
        "This problem is degenerate",
        '<span class="k">class</span>',
    ):
        assert text in html
