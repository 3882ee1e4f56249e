"""Honest kernels and planted bugs: that they are what they say."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from judge.selftest.entries import FOLDERS, HERE, Corpus, Entry, parse_header, read_entry
from judge.sources.checks import GPU_CASE, declared_cases


def corpus(which: Corpus) -> dict[str, Entry]:
    return {path.stem: read_entry(path, which) for path in sorted((HERE / FOLDERS[which]).glob("*.py"))}


HONEST, MUTATIONS = corpus(Corpus.HONEST), corpus(Corpus.MUTATION)


def shape(source: str) -> str:
    """The program without comments and layout."""
    return ast.dump(ast.parse(source))


def test_no_honest_kernel_is_there_twice() -> None:
    passing = [entry for entry in HONEST.values() if {one.verdict for one in entry.endings("cuda")} == {"pass"}]
    assert len({(entry.problem.source, shape(entry.candidate)) for entry in passing}) == len(passing) >= 100


def test_problems_are_met_in_several_styles() -> None:
    answers = Counter(entry.problem.source for entry in HONEST.values())
    assert len(answers) >= 40 and sum(count > 1 for count in answers.values()) >= 25


def test_every_type_of_number_is_there() -> None:
    words = Counter[str]()
    for entry in HONEST.values():
        text = f"{entry.problem.source} {entry.problem.policy.dtype}"
        words.update(set(re.findall(r"\b(bfloat16|float16|float64|int64|int32|int8|bool|randint)\b", text)))
    assert all(words[name] >= 2 for name in ("bfloat16", "float16", "int64", "int32", "randint"))
    assert all(words[name] >= 1 for name in ("float64", "int8", "bool"))


def test_an_honest_kernel_that_may_fail_is_the_one_that_cannot_be_imported() -> None:
    endings = {name: entry.expected for name, entry in HONEST.items()}
    others = [name for name, found in endings.items() if {one.verdict for one in found[""]} != {"pass"}]
    assert others == ["h_import_error_names_a_lock"]
    assert len(HONEST["h_long_source"].candidate.encode()) > 128 * 1024


@pytest.mark.parametrize("entry", HONEST.values(), ids=lambda entry: entry.id)
def test_an_honest_problem_has_a_size_for_a_gpu(entry: Entry) -> None:
    assert GPU_CASE in declared_cases(entry.problem.source)


def test_every_bug_is_planted_in_an_honest_kernel_and_changes_its_program() -> None:
    parents = set()
    for name, entry in MUTATIONS.items():
        base = parse_header((HERE / "mutations" / f"{name}.py").read_text()).values["base"]
        parent = HONEST[base.removeprefix("honest/")]
        assert shape(entry.candidate) != shape(parent.candidate), name
        assert (entry.problem.source, entry.problem.policy) == (parent.problem.source, parent.problem.policy), name
        assert entry.limits == parent.limits, name
        parents.add(base)
    assert len(MUTATIONS) >= 100 and len(parents) >= 50


def test_no_two_bugs_are_the_same_program() -> None:
    assert len({shape(entry.candidate) for entry in MUTATIONS.values()}) == len(MUTATIONS)


def test_a_bug_never_ends_in_a_pass_and_always_with_a_reason() -> None:
    for name, entry in MUTATIONS.items():
        for kind in entry.benches:
            for ending in entry.endings(kind):
                assert ending.verdict not in {"pass", "lost", "load_failed", "bad_source", "compile_failed"}, name
                assert ending.reasons, name
