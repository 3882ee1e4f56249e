"""The sample problems: four families, admitted on the interpreter, realistic on a GPU, seeded once."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
import torch
from django.core.management import call_command
from torch._subclasses.fake_tensor import FakeTensorMode

from judge.bench.admission.admission import admit
from judge.bench.admission.graph import compulsory_bytes, trace
from judge.bench.foreign.loading import load_problem
from judge.problems.models import Problem
from judge.problems.services import SAMPLES
from judge.sources.checks import check_problem, declared_weights
from tests.pages import client_of

FILES = sorted(path for path in SAMPLES.glob("*.py") if path.name != "__init__.py")
by_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def seed() -> str:
    out = StringIO()
    call_command("seed_samples", stdout=out)
    return out.getvalue()


def test_there_are_twelve_samples_in_four_families() -> None:
    facts = [check_problem(path.read_bytes()) for path in FILES]
    assert len(facts) >= 12 and len({fact.title for fact in facts}) == len(facts)
    assert {fact.family for fact in facts} == {"element-wise", "reductions", "matmul", "attention"}
    assert all(fact.description and "gpu" in fact.cases for fact in facts)


@by_file
def test_the_plain_constants_are_admitted_on_the_interpreter(path: Path, tmp_path: Path) -> None:
    report = admit(load_problem(path.read_text(), None, tmp_path), "interpreter", lambda stage: None, "sm_90")
    assert (report.state, report.message, report.flaws) == ("admitted", "", ())
    assert {stage.state for stage in report.stages} == {"ok"} and report.graph
    assert report.environment["interpreter_steps"] <= 64


@by_file
def test_the_gpu_case_moves_a_realistic_amount(path: Path, tmp_path: Path) -> None:
    loaded = load_problem(path.read_text(), "gpu", tmp_path)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        model, inputs = loaded.Model(*loaded.get_init_inputs()), loaded.get_inputs()
        output = model(*inputs)
        graph = trace(model, inputs)
        moved = compulsory_bytes(model, inputs, output, graph)
    assert 20e6 < moved < 3e9


@pytest.mark.django_db
def test_seeding_twice_adds_nothing() -> None:
    assert f"{len(FILES)} created" in seed()
    assert "0 created" in seed() and Problem.objects.filter(origin=Problem.Origin.SAMPLE).count() == len(FILES)


@pytest.mark.django_db
def test_seeding_changes_no_row_and_brings_back_a_text_that_is_gone() -> None:
    seed()
    Problem.objects.filter(slug="swiglu").update(title="mine", source="other", source_hash="0" * 64)
    assert "1 created" in seed()
    assert Problem.objects.get(slug="swiglu").title == "mine"
    assert Problem.objects.get(slug="swiglu-2").title == "SwiGLU gate"


@pytest.mark.django_db
def test_one_sample_weighs_three_shapes_and_its_page_shows_them() -> None:
    seed()
    row = Problem.objects.get(slug="mean_gate")
    html = client_of("viewer").get(f"/problems/{row.slug}/").content.decode()
    assert declared_weights(row.source) == {"interpreter": 1.0, "gpu": 2.0, "narrow": 1.0}
    assert html.count("weight 1") == 2 and html.count("weight 2") == 1 and "weighted geometric means" in html
