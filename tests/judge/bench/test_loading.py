"""Uploaded text becomes modules, or an error that says where."""

from __future__ import annotations

import sys

import pytest

from judge.bench.foreign.loading import load_candidate, load_problem, write_module
from judge.bench.foreign.places import as_loaded, placed
from judge.bench.foreign.sources import LoadError, check_source
from judge.values import Finding, Job, Outcome, ProblemSpec, Verdict, canonical_hash, text_hash
from tests.judge.bench_problems import PROBLEM

CASES = PROBLEM + "\ndef get_cases():\n    return {'gpu': {'SIZE': 4096}, 'odd': {'SIZE': 37}}\n"


@pytest.fixture(autouse=True)
def _forget_modules():
    yield
    for name in ("problem", "candidate"):
        sys.modules.pop(name, None)


def test_a_case_sets_the_constants_before_the_factories_run(tmp_path):
    loaded = load_problem(CASES, "odd", tmp_path)
    assert loaded.get_inputs()[0].shape == (16, 37)
    assert loaded.get_init_inputs() == [37]
    assert set(loaded.cases) == {"gpu", "odd"}


def test_without_a_case_the_constants_stay_as_written(tmp_path):
    assert load_problem(CASES, None, tmp_path).get_init_inputs() == [64]


def test_an_undeclared_case_is_named_with_the_declared_ones(tmp_path):
    with pytest.raises(LoadError, match=r"declares no case 'big'.*gpu, odd"):
        load_problem(CASES, "big", tmp_path)


def test_a_case_may_only_set_constants_that_exist(tmp_path):
    source = PROBLEM + "\ndef get_cases():\n    return {'gpu': {'WIDTH': 1}}\n"
    with pytest.raises(LoadError, match="'WIDTH', which the module does not define"):
        load_problem(source, None, tmp_path)


def weighted(**weights: str) -> str:
    cases = ", ".join(f"{name!r}: {{'SIZE': 8, 'weight': {weight}}}" for name, weight in weights.items())
    return PROBLEM + f"\ndef get_cases():\n    return {{{cases}, 'odd': {{'SIZE': 37}}}}\n"


def test_weights_are_taken_out_of_the_constants(tmp_path):
    loaded = load_problem(weighted(wide="2", tall="1 / 2"), "wide", tmp_path)
    assert loaded.weights == {"wide": 2.0, "tall": 0.5}
    assert loaded.cases == {"wide": {"SIZE": 8}, "tall": {"SIZE": 8}, "odd": {"SIZE": 37}}


@pytest.mark.parametrize("weight", ["-2", "0.0", "float('nan')", "float('inf')", "10 ** 400", "True", "'1'", "[1]"])
def test_a_weight_that_is_none_is_refused_with_its_case(weight, tmp_path):
    with pytest.raises(LoadError, match=r"the weight of case 'wide' is .* leave it out") as caught:
        load_problem(weighted(wide=weight), None, tmp_path)
    assert caught.value.reason == "load.case"


def test_a_module_may_not_have_a_weight_of_its_own_beside_weights(tmp_path):
    with pytest.raises(LoadError, match="another name"):
        load_problem("weight = 3\n" + weighted(wide="1"), None, tmp_path)


def test_more_weights_than_are_timed_are_refused(tmp_path):
    with pytest.raises(LoadError, match="9 cases of get_cases"):
        load_problem(weighted(**{f"c{number}": "1" for number in range(9)}), None, tmp_path)


def test_an_import_error_keeps_its_words_and_line_without_private_paths(tmp_path):
    with pytest.raises(LoadError) as caught:
        write_module("import torch\n\nraise RuntimeError('the lock is gone')\n", tmp_path, "candidate")
    assert caught.value.line == 3
    assert "the lock is gone" in caught.value.message
    assert str(tmp_path) not in caught.value.message


def test_exiting_at_import_is_an_error_like_any_other(tmp_path):
    with pytest.raises(LoadError, match="SystemExit"):
        write_module("import sys\nsys.exit(0)\n", tmp_path, "candidate")


def test_the_module_lies_in_a_real_file(tmp_path):
    module = write_module("def answer():\n    return 42\n", tmp_path, "candidate")
    assert module.answer() == 42
    assert (tmp_path / "candidate.py").read_text().startswith("def answer")


def test_a_candidate_without_the_class_says_what_to_define(tmp_path):
    with pytest.raises(LoadError, match="`ModelNew`"):
        load_candidate("class Other: pass\n", tmp_path)


@pytest.mark.parametrize(
    ("source", "reason", "words"),
    [
        ("def f(:\n    pass\n", "source.syntax", "line 1"),
        ("```python\nclass ModelNew: pass\n```\n", "source.syntax", "fences"),
        ("x = 1\n", "source.no_model", "`ModelNew` is not defined"),
        ("x = '\x00'\n", "source.binary", "not UTF-8 text"),
        ("# coding: utf-7\nclass ModelNew: pass\n", "source.encoding", "line 1 declares the encoding 'utf-7'"),
        ("class ModelNew: pass\n\x0cx = 1\n", "source.encoding", "U+000C is not allowed"),
        ("#" + "x" * 2000, "source.too_large", "the limit is 1,000"),
        ("(" * 5000, "source.syntax", ""),
    ],
)
def test_unusable_text_is_refused_with_a_reason(source, reason, words):
    with pytest.raises(LoadError) as caught:
        check_source(source, needs=("ModelNew",), max_bytes=1000 if "xxx" in source else 10_000)
    assert caught.value.reason == reason
    assert words in caught.value.message


def test_a_class_defined_in_a_branch_counts():
    check_source("try:\n    class ModelNew: pass\nexcept ImportError:\n    pass\n", needs=("ModelNew",), max_bytes=999)


def test_a_text_that_others_would_read_otherwise_is_not_imported(tmp_path):
    with pytest.raises(LoadError, match="sources are UTF-8"):
        write_module("# coding: utf-7\n# +AAo-x = 1\n", tmp_path, "problem")
    assert not (tmp_path / "problem.py").exists()


def test_the_file_holds_the_very_text_that_runs(tmp_path):
    module = write_module("\ufeffx = '''1\r\n2\r3'''\nown = open(__file__, newline='').read()\n", tmp_path, "problem")
    assert module.x == "1\n2\n3"
    assert module.own.startswith("x = '''1\n2\n3'''\nown")


def test_a_candidate_is_loaded_as_it_is_hashed_and_answered_for_as_it_was_written():
    source = '# why\nclass ModelNew:\n    """About."""\n\n    x = 1\n'
    job = as_loaded(Job("1", ProblemSpec(PROBLEM), source, incumbent=source))
    assert job.candidate == job.incumbent == "class ModelNew:\n    x = 1\n"
    assert text_hash(job.candidate) == canonical_hash(source)
    outcome = Outcome(
        Verdict.LOAD_FAILED, stage="load", reason="load.import", message='x\n  File "candidate.py", line 2, in f',
        findings=(Finding("precision.unclear", "candidate.py:2"),), log="candidate.py:1",
    )  # fmt: skip
    found = placed(outcome, source)
    assert (found.message, found.log) == ('x\n  File "candidate.py", line 5, in f', "candidate.py:2")
    assert found.findings[0].message == "candidate.py:5"
