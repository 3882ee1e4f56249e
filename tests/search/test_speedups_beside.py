"""No speedup over eager stands alone where another baseline is faster: pages, texts, files and the API say both."""

from __future__ import annotations

import json

import pytest

from judge.evaluations.conditions import left_out, numerics
from judge.evaluations.measures import Measure
from judge.values import Basis
from search.engine.completion import figure_of
from search.interchange.exports import facts, headline, verdict_document
from search.live.columns import node_columns, packed
from search.live.table_view import _measure
from search.templatetags.measures import measure
from tests.pages import client_of
from tests.search.export_rows import make_node

SHIPS = "0.62× over eager as PyTorch ships"
FASTEST = "0.58× over the fastest baseline, eager, channels-last and cudnn.benchmark"
SHIPS_WHOLE = "0.62× [0.60–0.64] n=48 over eager as PyTorch ships"
FASTEST_WHOLE = "0.58× [0.55–0.61] n=32 over the fastest baseline, eager, channels-last and cudnn.benchmark"
INTERVALS = {"shipped_interval": [0.6, 0.64, 48], "fastest_interval": [0.55, 0.61, 32]}


def shown(**beside) -> Measure:
    return Measure(1.3, 1.28, 1.32, 48, Basis.MEASURED, **beside)


@pytest.mark.parametrize(
    ("beside", "texts"),
    [
        ({}, ()),
        ({"over_fastest": 1.3, "fastest": "eager", "over_shipped": 1.3}, ()),
        ({"over_fastest": 0.58, "fastest": "channels-last", "over_shipped": 0.62}, (SHIPS, FASTEST)),
        (
            {"over_fastest": 0.62, "fastest": "eager-shipped", "over_shipped": 0.62},
            ("0.62× over the fastest baseline, eager, as PyTorch ships",),
        ),
        (
            {"over_fastest": 0.58, "fastest": "channels-last", "over_shipped": 0.62, **INTERVALS},
            (SHIPS_WHOLE, FASTEST_WHOLE),
        ),
        ({"over_fastest": 1.3, "fastest": "eager", "over_shipped": 2.0}, ("2.00× over eager as PyTorch ships",)),
    ],
)
def test_what_stands_beside_a_speedup_is_what_a_reader_would_miss(beside, texts):
    assert shown(**beside).beside == texts
    assert shown(**beside).whole == "; ".join(["1.30× [1.28–1.32] n=48 measured over eager", *texts])
    assert [text in measure(shown(**beside)) for text in texts] == [True] * len(texts)
    assert measure(shown(**beside)).count("measure-beside") == len(texts)


MEASURED = {"speedup": 1.3, "speedup_low": 1.28, "speedup_high": 1.32, "speedup_n": 48, "basis": "measured"}
BESIDE = {"over_shipped": 0.62, "over_fastest": 0.58, "fastest": "channels-last", **INTERVALS}


@pytest.mark.django_db
def test_every_form_of_a_kernel_says_it():
    node = make_node(evaluation={**MEASURED, **BESIDE})
    assert f"{SHIPS_WHOLE}; {FASTEST_WHOLE}" in headline(node)
    assert {name: figure_of(node.evaluation)[name] for name in BESIDE} == BESIDE
    document = verdict_document(node)
    assert {name: document["evaluation"][name] for name in BESIDE} == BESIDE
    assert document["problem"]["policy"]["precision"] == "strict" and ("numerics", "strict") in facts(node)
    columns = node_columns(node.run, [node.number])
    assert (columns["f"], columns["w"]) == ([[0.58, 0.55, 0.61, 32]], ["channels-last"])
    assert columns["h"] == [[0.62, 0.6, 0.64, 48]]
    assert json.loads(json.dumps(packed(columns)))["w"] == ["channels-last"]
    assert _measure(columns, 0).beside == (SHIPS_WHOLE, FASTEST_WHOLE)


@pytest.mark.django_db
def test_pages_and_the_api_say_it():
    node = make_node(evaluation={**MEASURED, **BESIDE})
    client = client_of("viewer")
    for address in (f"/evaluations/{node.evaluation_id}/", "/kernels/"):
        text = client.get(address).content.decode()
        assert FASTEST_WHOLE in text and SHIPS_WHOLE in text, address
    [row] = client.get("/api/v1/kernels").json()["items"]
    assert [row["speedup"][f"fastest_{name}"] for name in ("low", "high", "n")] == INTERVALS["fastest_interval"]
    assert [row["speedup"][f"shipped_{name}"] for name in ("low", "high", "n")] == INTERVALS["shipped_interval"]
    assert (row["speedup"]["over_shipped"], row["speedup"]["over_fastest"]) == (0.62, 0.58)


@pytest.mark.django_db
def test_a_page_says_the_numerics_and_which_baselines_are_left_out():
    notes = {"sdpa": "left out: no softmax", "compile": "measured", "forged": "left out: x"}
    environment = {"numerics": {"precision": "strict", "cudnn.allow_tf32": False}, "baselines": notes}
    evaluation = make_node(evaluation={"report": {"environment": environment}}).evaluation
    assert [(str(name), why) for name, why in left_out(evaluation)] == [
        ("eager, scaled_dot_product_attention", "no softmax")
    ]
    text, switches = numerics(evaluation)
    assert text.startswith("strict: ") and switches == [("cudnn.allow_tf32", "False")]
    html = client_of("viewer").get(f"/evaluations/{evaluation.pk}/").content.decode()
    assert "cudnn.allow_tf32" in html and text in html
    evaluation.report = {"environment": {"numerics": "forged", "baselines": [1]}}
    assert left_out(evaluation) == [] and numerics(evaluation)[1] == []
