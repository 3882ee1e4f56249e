"""One text of a candidate is hashed, checked and loaded: what is not in the hash is not in the text that runs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from judge.values import canonical_hash, canonical_text, text_hash
from judge.values.texts import MOST_CHARS, bad_text

SOURCE = '''"""About."""
import torch  # why

class ModelNew(torch.nn.Module):
    """More."""
    "and more"

    # nothing
    def forward(self, x, *, y: int = 0x10):
        """Only this."""

    text = """
    # kept

    """  # dropped
    total = (1 +

             2)  # sum
'''
TEXT = '''import torch
class ModelNew(torch.nn.Module):
    def forward(self, x, *, y: int = 0x10):
        pass
    text = """
    # kept

    """
    total = (1 +
             2)
'''


def test_comments_docstrings_and_empty_lines_are_neither_hashed_nor_loaded() -> None:
    assert canonical_text(SOURCE).text == TEXT
    assert canonical_hash(SOURCE) == canonical_hash(TEXT) == text_hash(TEXT)
    assert canonical_text(TEXT).text == TEXT


@pytest.mark.parametrize(
    "change",
    [
        ("0x10", "16"),
        ("# kept", "# other"),
        ("1 +", "1  +"),
        ("forward", "f"),
        ("    total", "    1\n    total"),
    ],
)
def test_everything_else_is_in_the_hash(change: tuple[str, str]) -> None:
    assert change[0] in SOURCE and canonical_hash(SOURCE.replace(*change)) != canonical_hash(SOURCE)


def test_a_place_in_the_loaded_text_is_told_as_a_line_of_the_source() -> None:
    text = canonical_text(SOURCE)
    rows = SOURCE.split("\n")
    for number, row in enumerate(text.text.rstrip("\n").split("\n"), start=1):
        place = int(text.in_source(f"candidate.py:{number}: no").split(":")[1])
        assert rows[place - 1].startswith(row) or row.strip() == "pass"
    assert text.in_source('File "candidate.py", line 10, in f') == 'File "candidate.py", line 18, in f'
    assert text.in_source("problem.py:3: no; candidate.py:99") == "problem.py:3: no; candidate.py:99"


@pytest.mark.parametrize("path", sorted(Path("judge").rglob("*.py"))[::40], ids=str)
def test_the_loaded_text_is_the_same_program(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert _program(canonical_text(source).text) == _program(source)


def _program(source: str) -> str:
    """The syntax tree without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            while node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
                node.body.pop(0)
            node.body = node.body or [ast.Pass()]
    return ast.dump(tree)


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("def f(): 'here'\n", "def f(): 'here'\n"),  # it shares its line
        ("x = 1 \\\n\ny = 2\n", "x = 1 \\\n\ny = 2\n"),  # the empty line ends a line that was continued
        ("x = 1 + \\\n  2 # c\n", "x = 1 + \\\n  2\n"),
        ("'doc'\n", ""),
        ("f'{1}'\nb'2'\n", "f'{1}'\nb'2'\n"),  # no docstrings
        ("\ufeff\ufeffx = 1\r\ny = '# no'\r", "x = 1\ny = '# no'\n"),
    ],
)
def test_only_what_has_no_meaning_is_left_out(source: str, kept: str) -> None:
    assert canonical_text(source).text == kept


@pytest.mark.parametrize(
    "bad",
    [
        "# coding: utf-7\n{}", "# x\n#!vim: set fileencoding=latin-1\n{}", "{}\x0c", "{}# \x1b[2K\n", "{}# \x00\n",
        "{}# \udcff\n", "# \ufffd\n{}", "{}" + "#" * MOST_CHARS, "{}\ndef",
    ],
)  # fmt: skip
def test_a_text_that_is_refused_does_not_share_the_hash_of_one_that_is_not(bad: str) -> None:
    """Else its verdict would be the other one's too."""
    source = bad.format(TEXT)
    assert canonical_hash(source) != canonical_hash(TEXT)
    assert canonical_text(source).text == source


@pytest.mark.parametrize(
    "fine", ["# -*- coding: utf-8 -*-\n{}", "# vim: fileencoding=UTF8\n{}", "{}# coding: latin-1\n"]
)
def test_a_declaration_of_utf_8_says_nothing_new(fine: str) -> None:
    assert bad_text(fine.format(TEXT)) is None and canonical_hash(fine.format(TEXT)) == canonical_hash(TEXT)


def test_text_that_cannot_be_read_hashes_as_text() -> None:
    deep = "x = " + "-" * 100_000 + "1"
    assert len({canonical_hash(text) for text in ("def", "def ", deep, deep + " ", f"x = 0x{'f' * 6000}")}) == 5
