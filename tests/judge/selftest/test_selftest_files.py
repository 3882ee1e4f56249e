"""Corpus files: what their headers must say, and that the corpora are what they promise."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from judge.selftest.entries import (
    FOLDERS,
    HERE,
    BadEntry,
    Corpus,
    chosen,
    compared,
    endings,
    entries,
    parse_header,
    read_entry,
)
from judge.values import Finding

BY_HAND = {10, 17, 20, 29, 39}  # of the 63 exploits: reviewed by hand, not scripted
GPU_ONLY = {1, 2, 9, 12, 32, 38, 43, 44, 56, 58, 63}


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / "exploits" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    (folder / "problems").mkdir(exist_ok=True)
    (folder / "problems" / "any.py").write_text("class Model: pass\n")
    return path


HEAD = "# title: a cheat\n# problem: any\n# expect: wrong value. | suspect time. +library.share\n"


def test_a_file_becomes_an_entry_with_its_endings(tmp_path):
    path = write(tmp_path, "e99_cheat.py", HEAD + "# exploit: 99\n# devices: cpu\n#\n# prose: anything\nx = 1\n")
    found = read_entry(path, Corpus.EXPLOIT, tmp_path)
    assert (found.id, found.number, found.benches) == ("e99_cheat", 99, frozenset({"cpu"}))
    first, second = found.endings("cpu")
    assert first.matches("wrong", "value.mismatch") and not first.matches("wrong", "time.wrong_output")
    assert second.matches("suspect", "time.drift", (Finding("library.share", ""),))
    assert not second.matches("suspect", "time.drift")


def test_an_attack_that_comes_to_nothing_may_pass_unless_it_is_called_faster():
    (only,) = endings("pass !faster")
    assert only.matches("pass", "") and not only.matches("pass", "", faster=True)
    assert str(only) == "pass !faster"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# title: x\n# problem: any\nx = 1\n", "says not what is expected"),
        ("# problem: any\n# expect: pass\n", "needs a title"),
        ("# titel: x\n", "line 1"),
        ("# title: x\n# title: y\n", "there twice"),
        (HEAD + "# quick: perhaps\n", "neither yes nor no"),
        (HEAD + "# repeat: twice\n", "no whole number"),
        (HEAD + "# devices: tpu\n", "devices are some of"),
        ("# title: x\n# problem: any\n# expect: wrng value.\n", "neither a verdict"),
        ("# title: x\n# problem: none\n# expect: pass\n", "none.py"),
    ],
)
def test_a_header_that_says_nothing_usable_names_the_file_and_the_fault(tmp_path, text, says):
    path = write(tmp_path, "e01_bad.py", text)
    with pytest.raises(BadEntry, match=says) as caught:
        read_entry(path, Corpus.EXPLOIT, tmp_path)
    assert "exploits/e01_bad.py" in str(caught.value)


def test_an_entry_with_a_base_changes_its_text_in_exactly_one_place(tmp_path):
    write(tmp_path, "e01_base.py", HEAD + "a = 1\nb = 2\n")
    head = "# title: other\n# base: exploits/e01_base\n# expect: pass\n"
    path = write(tmp_path, "e02_changed.py", head + "# replace: a = 1 => a = 7\n")
    found = read_entry(path, Corpus.EXPLOIT, tmp_path)
    assert "a = 7\nb = 2" in found.candidate and found.endings("cpu")[0].verdict == "pass"
    for change in ("c = 3 => c = 4", "a => b"):
        with pytest.raises(BadEntry, match="exactly once"):
            read_entry(write(tmp_path, "e03_no.py", head + f"# replace: {change}\n"), Corpus.EXPLOIT, tmp_path)


def test_prose_after_an_empty_line_is_not_read():
    assert parse_header("# title: x\n#\n# nonsense: 1\ncode: int\n").values == {"title": "x"}


def test_every_scripted_exploit_of_the_catalogue_has_an_attack():
    numbers = {entry.number for entry in entries() if entry.number is not None}
    assert numbers >= set(range(1, 64)) - BY_HAND and not numbers & BY_HAND
    without_gpu = {
        entry.number for entry in entries() if entry.number is not None and entry.benches & {"interpreter", "cpu"}
    }
    assert set(range(1, 64)) - BY_HAND - GPU_ONLY <= without_gpu and len(without_gpu) >= 45
    on_cuda = {entry.number for entry in entries() if entry.number is not None and "cuda" in entry.benches}
    assert on_cuda == numbers


def test_only_what_the_policy_labels_may_pass_among_attacks():
    for entry in entries():
        if entry.corpus is Corpus.EXPLOIT:
            for kind in entry.benches:
                for ending in entry.endings(kind):
                    labelled = entry.number in {42, 43, 44, 45} and ending.findings
                    assert ending.verdict != "pass" or labelled or ending.gainless, entry.id
                    assert ending.verdict == "pass" or ending.reasons, entry.id


def test_the_corpora_are_as_large_as_they_must_be():
    counts = Counter(entry.corpus for entry in entries())
    assert counts[Corpus.HONEST] >= 100 and counts[Corpus.MUTATION] >= 40
    assert sum(entry.comparisons for entry in entries() if entry.corpus is Corpus.AA) >= 300


def test_comparisons_of_a_class_are_divided_among_its_entries():
    twins = [entry for entry in entries() if entry.corpus is Corpus.AA]
    sizes = {entry.size for entry in twins} - {""}
    assert sizes == {"5 us", "100 us", "1 ms", "10 ms", "30 ms", "launch-bound"}
    found = compared(tuple(twins), 100)
    for size in sizes:
        counts = [entry.comparisons for entry in found if entry.size == size]
        assert 100 <= sum(counts) < 100 + len(counts) and max(counts) - min(counts) == 0
    assert [entry for entry in found if not entry.size] == [entry for entry in twins if not entry.size]


def test_the_quick_choice_is_a_dozen_of_several_kinds():
    quick = chosen(entries(), quick=True)
    assert 10 <= len(quick) <= 14
    assert {entry.corpus for entry in quick} == {Corpus.EXPLOIT, Corpus.HONEST, Corpus.MUTATION}


def test_an_unknown_id_is_told():
    with pytest.raises(BadEntry, match="no entry 'e00'"):
        chosen(entries(), ids=("e00",))


def test_corpus_files_are_python_and_no_package():
    for folder in (*FOLDERS.values(), "problems"):
        assert not (HERE / folder / "__init__.py").exists()
    for entry in entries():
        ast.parse(entry.candidate)
        ast.parse(entry.problem.source)


def test_an_ending_says_itself_in_words():
    assert [str(one) for one in endings("wrong value. | pass +library.share")] == [
        "wrong value.*",
        "pass +library.share",
    ]
