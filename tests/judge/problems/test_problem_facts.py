"""The page of a problem: cost and baselines with their evidence, flaws with their fix, sealed cases, policy."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from judge.problems.models import Problem
from judge.problems.queries import declared_rows, graph_summary
from judge.values import Basis
from tests.judge.gpu_rows import flagged, gpu, judged, passed, problem, report, sealed
from tests.pages import client_of
from tests.search.makers import make_device

pytestmark = pytest.mark.django_db


def page(row: Problem, role: str = "viewer") -> str:
    return client_of(role).get(f"/problems/{row.slug}/").content.decode()


def test_cost_bound_and_baselines_stand_with_interval_n_and_origin():
    device, row = gpu(), problem()
    evaluation = passed(row, device, 243.7)
    html = page(row)
    for text in ("149 µs", "limited by memory", "4.39 TB/s measured", "448 µs", "446 µs – 450 µs", "61 %", "33 %"):
        assert text in html, text
    assert f'href="/evaluations/{evaluation.pk}/">evaluation {evaluation.pk}</a>' in html
    assert "only with JUDGE_MAX_AUTOTUNE=1" in html
    assert "1 passing kernel plotted" in html and "MODELLED" not in html


def test_a_graph_is_counted_by_operator_and_cut_where_it_is_long():
    def node(name: str, op: str, *of: str) -> dict[str, object]:
        return {"name": name, "op": op, "args": [{"node": one} for one in of], "out": "f32[4]"}

    nodes = [
        node("x", "placeholder"), node("a", "aten.mul.Tensor", "x", "x"), node("b", "aten.relu.default", "a"),
        node("c", "aten.mul.Tensor", "b", "a"), node("out", "output", "c"),
    ]  # fmt: skip
    found = graph_summary([SimpleNamespace(report={}), SimpleNamespace(report={"graph": {"nodes": nodes}})], 3)
    assert found is not None
    assert (found["operators"], found["kinds"], found["hidden"]) == (3, [("mul", 2), ("relu", 1)], 2)
    assert [row["inputs"] for row in found["rows"]] == ["", "x, x", "a"]
    assert graph_summary([SimpleNamespace(report={})], 3) is None


def test_a_case_says_on_which_device_it_is_used_for_what():
    def seen(name: str, title: str, basis: Basis, **row: object) -> SimpleNamespace:
        device = SimpleNamespace(name=name, title=title, basis=basis)
        return SimpleNamespace(
            device=device, report={"case": "small", "declared": [{"name": "small"}, {"name": "wide", **row}]}
        )

    checks = [
        seen("interpreter", "Interpreter", Basis.MODELLED, weight=2.0),
        seen("cuda:0", "NVIDIA H200", Basis.MEASURED),
        seen("cuda:1", "", Basis.MEASURED, weight=2.0, left_out="too large"),
    ]
    small, wide = declared_rows(Problem(source=""), checks)
    assert small.uses == (
        ("interpreter", "times modelled on"), ("cuda:0 (NVIDIA H200)", "timed on"), ("cuda:1", "timed on"),
    )  # fmt: skip
    assert [said for _, said in wide.uses] == ["times modelled on", "correctness on", "not asked on"]
    assert wide.weight == 2.0


def test_without_evaluations_the_preflight_s_own_time_is_shown():
    gpu()
    html = page(problem())
    assert "446 µs – 449 µs" in html and "preflight" in html and "No kernel has passed on this device yet." in html


def test_a_modelled_time_says_so_and_has_no_n():
    make_device()
    eager = {"median_us": 8.0, "low_us": 4.8, "high_us": 14.4, "n": 0, "modelled": True}
    html = page(problem(admission={"interpreter": report(eager=eager)}))
    table = html.split("Baselines on interpreter")[1].split("</table>")[0]
    assert "MODELLED" in table and "4.8 µs – 14.4 µs" in table and "Model range" in table
    assert "99.8 % interval" not in table
    assert "torch.compile" not in table  # no line for what has no model
    assert "Other baselines are not modelled" in html


def test_a_problem_without_arithmetic_has_figures_and_no_plot():
    gpu()
    html = page(problem(admission={"cuda:0": report(flops=0.0)}))
    assert "Compulsory bytes" in html and "roofline-plot" not in html


def test_flaws_stand_with_code_fix_and_device_and_the_flag_is_said():
    gpu()
    html = page(flagged())
    assert "This problem is degenerate" in html
    for text in ("problem.dead_ops", "on cuda:0", "Remove such operators.", "problem.collapses", "degenerate problem"):
        assert text in html, text


def test_of_sealed_cases_everybody_sees_number_and_kinds_alone():
    gpu()
    row = problem()
    secret = sealed(row)
    for role in ("viewer", "operator", "reviewer", "admin"):
        html = page(row, role)
        assert "2 sealed cases: 1 size, 1 stride" in html and "4097" not in html and secret.seed not in html, role
        assert ("Open the sealed cases" in html) == (role == "admin"), role


def test_a_policy_is_told_in_words():
    gpu()
    html = page(problem(policy={"precision": "tf32", "mode": "eval", "library": "refuse", "dtype": "bfloat16"}))
    for text in ("TF32: products, convolutions", "bfloat16", "eval", "refused"):
        assert text in html, text


def test_kernels_that_failed_stand_in_no_table_of_the_fastest():
    device, row = gpu(), problem()
    judged(row, device, "wrong")
    html = page(row)
    assert "Fastest kernels" not in html and "No kernel has passed on this device yet." in html


def test_the_page_costs_the_same_number_of_queries_however_many_kernels_passed(django_assert_max_num_queries):
    device, row = gpu(), problem()
    passed(row, device, 243.7)
    client = client_of("viewer")
    with django_assert_max_num_queries(22) as first:
        assert client.get(f"/problems/{row.slug}/").status_code == 200
    for us in range(244, 264):
        passed(row, device, float(us), audit="")
    with django_assert_max_num_queries(len(first.captured_queries)):
        assert client.get(f"/problems/{row.slug}/").status_code == 200


def test_weighted_cases_stand_with_their_speedups_and_those_that_lose_are_named():
    device, row = gpu(), problem()
    row.source += '\n\ndef get_cases():\n    return {"gpu": {}, "thin": {"weight": 2}}\n'
    row.save()
    evaluation = passed(row, device, 243.7)
    timed = {"weight": 1.0, "state": "timed", "detail": "", "timings": []}
    speedup = {"n": 16, "basis": "measured"}
    slow = {**speedup, "value": 0.5, "low": 0.45, "high": 0.55, "call": "slower"}
    fast = {**speedup, "value": 8.0, "low": 7.5, "high": 8.5, "call": "faster"}
    evaluation.report["weighted"] = [
        {**timed, "case": "gpu", "evaluated": True, "speedup": fast},
        {**timed, "case": "thin", "evaluated": False, "speedup": slow},
    ]
    evaluation.save()
    html = page(row)
    assert "slower than eager in 1 case: <bdi>thin</bdi>" in html
    assert "0.50×" in html and "[0.45–0.55] n=16" in html and "8.00×" in html
    assert "The speedup is the weighted geometric mean over 2 cases." in html


def test_declared_cases_stand_with_shapes_and_what_each_device_does_with_them():
    rows = [
        {"name": "gpu", "inputs": [{"shape": [16384, 5000], "dtype": "float32"}], "left_out": ""},
        {"name": "odd", "inputs": [{"shape": [7, 5000], "dtype": "float32"}], "left_out": ""},
    ]
    make_device()
    gpu()
    small = report(case=None, declared=[{**rows[0], "left_out": "it is made for GPUs"}, rows[1]])
    html = page(problem(admission={"cuda:0": report(case="gpu", declared=rows), "interpreter": small}))
    told = html.split('id="declared-title"')[1].split("</section>")[0]
    assert "7×5000" in told
    assert (
        'timed on <span translate="no">cuda:0 (NVIDIA H200)' in told
        and 'not asked on <span translate="no">interpreter' in told
    )
    assert told.count("correctness on") == 2


def test_before_a_preflight_declared_cases_are_the_names_of_the_text():
    gpu()
    source = "def get_cases():\n    return {'wide': {'N': 2}}\n"
    html = page(problem(source=source, admission={}))
    assert "wide" in html and "shapes not known yet" in html


def test_the_page_of_a_problem_says_what_each_case_weighs():
    source = problem("weighing").source + '\n\ndef get_cases():\n    return {"wide": {"weight": 2}, "odd": {}}\n'
    row = problem("weighted", source=source, admission={})
    assert [(one.name, one.weight) for one in declared_rows(row, [])] == [("wide", 2.0), ("odd", 0.0)]
    html = page(row)
    assert "weight 2" in html and "weighted geometric means" in html
