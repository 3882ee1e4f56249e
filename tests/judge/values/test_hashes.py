"""Hashes of sources: blind for comments and layout, the same on every version of Python."""

from __future__ import annotations

import hashlib

import pytest

from judge.values import canonical_hash

SOURCE = '''"""About."""
import torch  # why


class ModelNew(torch.nn.Module):
    """More."""

    def forward(self, x, *, y: int = 0x10, z=None, **k) -> "T":
        with a as b:
            pass
        return f"{x!r:>{y}} a" + u"b", 1.5, 2j, ..., True, [*x], {**k}, (lambda q: q)(1), x[1:2, ::3]
'''
KNOWN = "34ff8a4eedc9139723bbf826cf84f0a0fbf16070db0036c055d7a3e62b66613a"


def test_the_hash_is_the_same_on_every_version_of_python() -> None:
    """The number was computed with 3.11, 3.12 and 3.13: outcomes of a GPU's host are matched by it."""
    assert canonical_hash(SOURCE) == KNOWN


def test_comments_docstrings_and_layout_do_not_count() -> None:
    other = SOURCE.replace('"""About."""\n', "").replace("  # why", "").replace("0x10", "(16)").replace('u"b"', "'b'")
    assert canonical_hash(other) == KNOWN


@pytest.mark.parametrize("change", [("1.5", "1.6"), ("True", "1"), ("z=None", "z=0"), (' a"', ' b"'), ("forward", "f")])
def test_everything_else_does(change: tuple[str, str]) -> None:
    assert change[0] in SOURCE and canonical_hash(SOURCE.replace(*change)) != KNOWN


def test_text_that_cannot_be_read_hashes_as_text() -> None:
    deep = "x = " + "-" * 100_000 + "1"
    assert len({canonical_hash(text) for text in ("def", "def ", deep, deep + " ", f"x = 0x{'f' * 6000}")}) == 5


def test_characters_that_only_some_versions_print_hash_alike() -> None:
    """U+1FAE8 came with Unicode 15: Python 3.11 escapes it in repr(), 3.12 does not. A lone surrogate hashes, too."""
    telling = hashlib.sha256(_wanted("'\\U0001fae8'").encode()).hexdigest()
    assert canonical_hash("x = '\U0001fae8'") == telling
    assert canonical_hash(r"x = '\ud800'") == hashlib.sha256(_wanted(r"'\ud800'").encode()).hexdigest()
    assert canonical_hash("x = 'é'") == hashlib.sha256(_wanted(r"'\xe9'").encode()).hexdigest()


def _wanted(value: str) -> str:
    name = "Name(ctx=Store(),id='x')"
    return f"Module(body=[Assign(targets=[{name}],value=Constant(value={value}))])"
