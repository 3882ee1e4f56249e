"""A lesson that a library lacks a name is taught only where the library does: kernels word errors as they like."""

from __future__ import annotations

import json

import pytest

from judge.libraries import asked_once
from memory.distil.distillers import DistilLater, InstalledNames, ModelDistiller, TableDistiller
from tests.memory.distil.test_distillers import FakeChat, facts, learned

HERE = {
    "triton": ["language", "jit"],
    "triton.language": ["any_of", "float32"],
    "triton.language.tensor": ["to"],
    "torch": ["relu"],
}


@pytest.fixture
def library(tmp_path, monkeypatch):
    document = {"protocol": 1, "torch": "2.13.0+cpu", "triton": "3.7.1", "names": HERE}
    monkeypatch.setattr(asked_once, "_asked", lambda question: document)
    return InstalledNames(tmp_path)


def said(message: str) -> str:
    return f"AttributeError: {message}"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("module 'triton.language' has no attribute 'softplus'", "triton.language.softplus"),
        ("module 'torch' has no attribute 'swoosh'", "torch.swoosh"),
        ("module 'triton' has no attribute 'swoosh'", "swoosh of triton"),
        ("cannot import name 'swoosh' from 'triton.language' (/x/__init__.py)", "swoosh of triton"),
        ("cannot import name 'swoosh' from 'torch' (/x/__init__.py)", "that torch documents"),
        ("'tensor' object has no attribute 'contiguous'", "contiguous"),
    ],
)
def test_what_the_library_lacks_is_a_lesson(library, message, words):
    lesson = TableDistiller(library).distil(facts(said(message), triton="3.7.1", torch="2.13.0"))
    assert lesson.outcome == "rule" and words in lesson.claim


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("module 'triton.language' has no attribute 'float32'", "is in triton 3.7.1: the kernel has its own object"),
        ("module 'torch' has no attribute 'relu'", "torch.relu is in torch"),
        ("'tensor' object has no attribute 'to'", "is in triton 3.7.1"),
        ("module 'triton.language.mine' has no attribute 'x'", "no module of torch or Triton"),
        ("module 'triton.mine' has no attribute 'x'", "no module of torch or Triton"),
        ("cannot import name 'helper' from partially initialized module", "no module of torch or Triton"),
        ("cannot import name 'relu' from 'torch' (/x/__init__.py)", "torch.relu is in torch"),
        ("cannot import name 'helper' from 'mine' (/x/mine.py)", "the candidate's own"),
        ("'ModelNew' object has no attribute 'weight'", "the candidate's own"),
        ("'Settings' object has no attribute 'width'", "the candidate's own"),
        ("type object 'Shape' has no attribute 'is_square'", "the candidate's own"),
        ("'Power' object has no attribute '__pow__'", "the candidate's own"),
    ],
)
@pytest.mark.parametrize("with_model", [False, True])
def test_what_it_has_or_the_candidate_made_up_is_none(library, message, why, with_model):
    chat = FakeChat(learned())
    distiller = ModelDistiller(chat, library) if with_model else TableDistiller(library)
    lesson = distiller.distil(facts(said(message), triton="3.7.1", torch="2.13.0"))
    assert (lesson.outcome, lesson.claim, chat.asked) == ("nothing", "", []) and why in lesson.why


def test_the_names_of_the_version_that_the_kernel_ran_with_count(library, tmp_path):
    message = said("module 'triton.language' has no attribute 'float32'")
    old = facts(message, triton="3.4.0", torch="2.8.0")
    assert "the names of 3.4.0, which the kernel ran with, are unknown" in TableDistiller(library).distil(old).why
    kept = {"protocol": 1, "torch": "2.8.0", "triton": "3.4.0", "names": {"triton.language": []}}
    (tmp_path / "names-2.8.0-3.4.0-1.json").write_text(json.dumps(kept))
    lesson = TableDistiller(library).distil(old)
    assert (lesson.outcome, lesson.scope.triton) == ("rule", ">=3.4,<3.5")


def test_nobody_is_asked_by_a_page_and_a_fault_leaves_it_for_later(tmp_path, monkeypatch):
    message = facts(said("module 'torch' has no attribute 'swoosh'"))
    monkeypatch.setattr(asked_once, "_asked", lambda question: pytest.fail("a page started a process"))
    assert "not been listed" in TableDistiller(InstalledNames(tmp_path, ask=False)).distil(message).why
    monkeypatch.undo()
    monkeypatch.setattr(asked_once.sys, "executable", "/bin/false")
    with pytest.raises(DistilLater, match="could not be listed"):
        TableDistiller(InstalledNames(tmp_path)).distil(message)


@pytest.mark.bench
def test_the_installed_libraries_tell_their_names(tmp_path):
    ask = InstalledNames(tmp_path).doubt
    nothing = facts("")
    has = [("triton.language", "load"), ("triton.language.extra", "libdevice"), ("torch.nn.functional", "gelu")]
    has += [("triton.language.tensor", "numel"), ("triton.Config", "kwargs"), ("torch", "onnx"), ("triton", "tools")]
    assert all("is in" in ask(owner, name, nothing) for owner, name in has)
    lacks = [("triton.language", "matmul"), ("torch.nn", "Swoosh"), ("triton.language.tensor", "contiguous")]
    assert not any(ask(owner, name, nothing) for owner, name in lacks)
