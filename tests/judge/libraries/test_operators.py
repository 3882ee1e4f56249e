"""The catalogue of operators is read from the installed torch, once per version."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from judge.bench.operators.choices import filled, variants
from judge.bench.operators.listing import Candidate
from judge.bench.operators.shapes import BASE, NoRule, rules
from judge.bench.operators.trying import tried
from judge.libraries import asked_once, operators
from judge.libraries.operators import operators_document
from judge.values import JudgeError


@pytest.mark.bench
def test_torch_tells_more_than_sixty_operators_and_is_asked_once(tmp_path, monkeypatch):
    found = {row["name"]: row for row in operators_document(tmp_path)["operators"]}
    usable = {name for name, row in found.items() if row["forms"]}
    assert len(usable) >= 60
    assert {"nn.Linear", "nn.Conv2d", "nn.LayerNorm", "nn.GELU", "nn.MaxPool2d", "torch.amax", "torch.mul"} <= usable
    assert "random" in found["nn.Dropout"]["why_not"] and "another name" in found["torch.relu"]["why_not"]
    conv = next(form for form in found["nn.Conv2d"]["forms"] if form["arguments"].get("padding") == 1)
    assert conv["arguments"]["in_channels"] == {"axis": 1} and conv["out"][1] == {"new": True}
    assert found["nn.ReLU"]["forms"][0]["keeps_positive"] and found["torch.exp"]["forms"][0]["overflows"]
    assert found["nn.Tanh"]["forms"][0]["bounded"] and not found["nn.GELU"]["forms"][0]["bounded"]
    monkeypatch.setattr(asked_once, "_asked", lambda question: pytest.fail("it was asked again"))
    assert operators_document(tmp_path)["operators"]


def toy(name: str = "nn.Toy", make=lambda **_: torch.nn.SiLU(), **parameters: bool) -> Candidate:
    return Candidate(name, "activation", "layer", make, parameters)


def test_an_operator_keeps_two_forms_of_each_rank_and_the_hash_of_its_numbers():
    row = tried(toy(kernel_size=True, dim=True))
    first = [{"kernel_size": 3, "dim": -1}, {"kernel_size": 3, "dim": 1}]
    assert [(form["rank"], form["arguments"]) for form in row["forms"]] == [
        (rank, arguments) for rank in BASE for arguments in first
    ]
    assert {name: row[name] for name in ("name", "category", "kind")} == {
        "name": "nn.Toy", "category": "activation", "kind": "layer",
    }  # fmt: skip
    assert row["output"] == tried(toy("nn.Other", dim=True))["output"] and "why_not" not in row


def test_one_that_works_for_some_shapes_keeps_those():
    class Flat(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dim() != 3:
                raise ValueError("three axes are needed")
            return torch.nn.functional.silu(x)

    row = tried(toy(make=Flat))
    assert [form["rank"] for form in row["forms"]] == [3] and "why_not" not in row


def test_one_without_a_form_says_why_in_a_few_words():
    assert tried(toy(nobody_knows=True))["why_not"] == "an argument is needed that nothing here has a value for"

    def refuse(**_: object) -> torch.nn.Module:
        raise ValueError("x" * 300)

    row = tried(toy(make=refuse))
    assert (row["forms"], row["why_not"]) == ([], "x" * 160) and "output" not in row


def test_a_child_that_says_nothing_is_a_fault_of_the_judge(tmp_path, monkeypatch):
    monkeypatch.setattr(asked_once.sys, "executable", "/bin/false")
    with pytest.raises(JudgeError, match="could not be listed"):
        operators_document(tmp_path)
    assert not list(tmp_path.glob("*.json"))


def test_many_who_ask_at_once_wait_for_one_child(tmp_path, monkeypatch):
    asked = []

    def slow(question: asked_once.Question) -> dict[str, object]:
        asked.append(1)
        time.sleep(0.1)
        return {"protocol": operators.PROTOCOL, "operators": []}

    monkeypatch.setattr(asked_once, "_asked", slow)
    with ThreadPoolExecutor(4) as pool:
        assert [found["operators"] for found in pool.map(operators_document, [tmp_path] * 4)] == [[]] * 4
    assert asked == [1]


def test_sizes_out_follow_sizes_in_by_simple_rules():
    told, multiples = rules(lambda shape, new: (shape[0], shape[1] // 2 + 1, new), 2)
    assert told == [
        {"axis": 0, "mul": 1, "div": 1, "add": 0},
        {"axis": 1, "mul": 1, "div": 2, "add": 1},
        {"new": True},
    ]
    assert multiples == [1, 1]


def test_sizes_that_mix_are_no_rule():
    with pytest.raises(NoRule, match="several"):
        rules(lambda shape, new: (shape[0] + shape[1],), 2)


def test_arguments_are_chosen_by_their_names():
    found = variants({"in_features": True, "out_features": True, "bias": False})
    assert filled(found[0], (3, 7), 24) == {"in_features": 7, "out_features": 24}
    assert variants({"nobody_knows": True}) == []
    assert {"kernel_size": 3, "padding": 1} in variants({"kernel_size": True, "padding": False})
