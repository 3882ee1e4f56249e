"""The catalogue of operators is read from the installed torch, once per version."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from judge.bench.operators.choices import filled, variants
from judge.bench.operators.shapes import NoRule, rules
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
