"""A speedup leaves the house with its evidence or not at all."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.template import Context, Template

from judge.evaluations.measures import Measure, basis_word
from judge.evaluations.models import Evaluation
from judge.values import Basis


def evaluation(value: float | None, basis: str, low: float | None = None, high: float | None = None) -> Evaluation:
    return Evaluation(speedup=value, speedup_low=low, speedup_high=high, speedup_n=48, basis=basis)


def test_a_modelled_basis_is_in_capitals_wherever_it_is_named():
    assert [basis_word(basis) for basis in ("measured", "modelled", "reported")] == ["measured", "MODELLED", "reported"]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (evaluation(2.3149, "measured", 2.241, 2.378), "2.31× [2.24–2.38] n=48 measured"),
        (evaluation(1.83, "modelled", 1.12, 2.61), "1.8× [1.1–2.6] MODELLED"),
        (evaluation(15.652, "reported"), "15.65× reported, not measured here"),
        (evaluation(0.071, "modelled", 0.05, 0.1), "0.07× [0.05–0.10] MODELLED"),
        (evaluation(912.4, "measured", 900, 930.2), "912× [900–930] n=48 measured"),
    ],
)
def test_each_basis_says_what_it_is(row, text):
    assert str(Measure.of(row)) == text


@pytest.mark.parametrize("row", [None, evaluation(None, ""), evaluation(2.0, ""), evaluation(2.0, "measured")])
def test_without_evidence_there_is_no_number(row):
    assert Measure.of(row) is None


def test_tree_rows_and_summaries_print_too():
    row = SimpleNamespace(speedup=2.0, low=1.5, high=2.5, n=9, basis="measured")
    assert str(Measure.of(row)) == "2.00× [1.50–2.50] n=9 measured"


def test_a_measured_number_cannot_be_built_without_interval():
    with pytest.raises(ValueError, match="interval"):
        Measure(2.0, None, None, 3, Basis.MEASURED)


def test_the_tag_prints_number_interval_and_basis_together():
    html = Template("{% load measures %}{% measure row %}").render(
        Context({"row": evaluation(1.83, "modelled", 1.1, 2.6)})
    )
    assert "<strong>1.8×</strong>" in html and "[1.1–2.6]" in html and "MODELLED" in html
    assert (
        Template("{% load measures %}{% measure row empty='none yet' %}")
        .render(Context({"row": None}))
        .count("none yet")
    )
