"""What an upload is told before any of its code runs."""

from __future__ import annotations

import pytest

from judge.sources.checks import (
    ProblemRejected,
    case_for,
    check_candidate,
    check_problem,
    declared_cases,
    declared_weights,
)

GOOD = b'''"""Row sums.

Family: reductions
Adds up every row.
"""
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum(-1)

def get_inputs():
    return [torch.rand(4, 8)]

def get_init_inputs():
    return []
'''


def rejected(data: bytes) -> ProblemRejected:
    with pytest.raises(ProblemRejected) as caught:
        check_problem(data)
    return caught.value


def test_the_docstring_gives_title_family_and_description() -> None:
    facts = check_problem(GOOD)
    assert (facts.title, facts.family, facts.description) == ("Row sums", "reductions", "Adds up every row.")


def test_the_limit_is_told_in_kib_with_what_to_do() -> None:
    with pytest.raises(ProblemRejected, match=r"has 300 KiB; the limit is 256 KiB. Create large tensors in get_inputs"):
        check_problem(GOOD.ljust(300 << 10, b"#"), max_bytes=256 << 10)


def test_a_long_file_below_the_limit_is_fine() -> None:
    assert check_problem(GOOD + b"# padding\n" * 25_000, max_bytes=256 << 10).title == "Row sums"


@pytest.mark.parametrize("data", [b"\x7fELF\x02\x01", b"PK\x03\x04zip", GOOD + b"\x00"])
def test_binary_files_are_named_as_such(data: bytes) -> None:
    assert "binary file" in rejected(data).message


def test_text_that_is_not_utf8_names_the_byte_and_its_line() -> None:
    error = rejected(GOOD.replace(b"Adds up", b"F\xfcgt"))
    assert error.line == 4 and "0xfc" in error.message and "UTF-8" in error.message


def test_what_is_missing_is_named_and_a_candidate_is_told_from_a_problem() -> None:
    told = rejected(
        GOOD.replace(b"class Model(", b"class ModelNew(").replace(b"def get_init_inputs", b"def other")
    ).message
    assert "does not define `Model`, `get_init_inputs`" in told and "`ModelNew` is a candidate" in told
    assert "does not define `get_inputs` at" in rejected(GOOD.replace(b"def get_inputs", b"def other")).message


def test_a_kernel_ends_with_one_line_end() -> None:
    text = "class ModelNew:\n    pass"
    assert check_candidate(text) == check_candidate(text + "\n") == check_candidate(text + "\r\n") == text + "\n"


def test_an_empty_file_is_refused() -> None:
    assert "empty" in rejected(b" \n\n").message


def test_a_syntax_error_shows_its_line_and_a_caret() -> None:
    error = rejected(GOOD + b"def broken(:\n    pass\n")
    assert error.line == 17
    assert "def broken(:" in error.message and "^" in error.message


@pytest.mark.parametrize("name", ["Model", "get_inputs", "get_init_inputs"])
def test_each_missing_name_says_what_to_add(name: str) -> None:
    error = rejected(GOOD.replace(name.encode() + b"(", b"Other("))
    assert f"`{name}`" in error.message and "Add `" in error.message


def test_a_candidate_uploaded_as_a_problem_is_recognised() -> None:
    assert "`ModelNew` is a candidate" in rejected(GOOD.replace(b"class Model(", b"class ModelNew(")).message


def test_all_missing_names_are_told_at_once() -> None:
    message = rejected(b"x = 1\n").message
    assert all(f"`{name}`" in message for name in ("Model", "get_inputs", "get_init_inputs"))


def test_windows_line_ends_and_a_byte_order_mark_are_accepted() -> None:
    assert check_problem(b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n")).text == GOOD.decode()


def test_case_names_are_read_without_running_the_file() -> None:
    source = 'def get_cases():\n    return {"gpu": {"N": 1}, "interpreter": {"N": 2}}\n'
    assert declared_cases(source) == ("gpu", "interpreter")
    assert declared_cases("def get_cases():\n    return dict(gpu={})\n") == ()


def weighing(*entries: str) -> bytes:
    lines = "".join(f"        {entry},\n" for entry in entries)
    return GOOD + f"\ndef get_cases():\n    return {{\n{lines}    }}\n".encode()


def test_weights_are_read_without_running_the_file() -> None:
    data = weighing('"wide": {"ROWS": 1, "weight": 2.5}', '"odd": {"ROWS": 2}', '"tall": {"weight": 1}')
    assert declared_weights(check_problem(data).text) == {"wide": 2.5, "tall": 1.0}
    assert declared_weights(GOOD.decode()) == {}


NO_WEIGHTS = ["0", "-1", "1e999", "True", "'2'", "None", "1j", "1 + 2j", "1" + "0" * 400]
NO_WEIGHTS += ["[1]", "[ROWS]", "(1, 2)", "{1}", "{'a': 1}", "{**ROWS}", "[i for i in (1,)]", "f'{ROWS}'", "lambda: 1"]


@pytest.mark.parametrize("weight", NO_WEIGHTS)
def test_a_weight_that_is_none_is_refused_with_its_line(weight: str) -> None:
    error = rejected(weighing('"wide": {"ROWS": 1, "weight": 1}', f'"odd": {{"weight": {weight}}}'))
    assert error.line == GOOD.count(b"\n") + 5
    assert "the weight of case 'odd' is" in error.message and "positive, finite number" in error.message


def test_more_weights_than_are_timed_are_refused() -> None:
    entries = [f'"c{number}": {{"weight": 1}}' for number in range(9)]
    check_problem(weighing(*entries[:8]))
    assert "9 cases of get_cases() carry a weight; at most 8 may" in rejected(weighing(*entries)).message


def test_a_device_takes_its_own_case_or_the_plain_constants() -> None:
    assert case_for("cuda", ("gpu",)) == "gpu"
    assert case_for("interpreter", ("gpu",)) is None
    assert case_for("interpreter", ("gpu", "interpreter")) == "interpreter"


def test_another_encoding_is_refused_with_what_to_remove() -> None:
    error = rejected(b"# -*- coding: latin-1 -*-\nx = 1\n")
    assert error.line == 1 and error.message.startswith("This file was not taken: line 1 declares the encoding")
