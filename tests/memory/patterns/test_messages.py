"""Of an error text the line that tells the cause is taken, wherever it stands."""

from __future__ import annotations

import pytest

from memory.patterns.messages import cause_of, masked, readable

CAUSE = "ValueError: Shape element 0 must be a power of 2"
INNER = f"""Traceback (most recent call last):
  File "/x/triton/language/core.py", line 3, in zeros
    check(shape)
{CAUSE}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/candidate.py", line 30, in forward
    k[(1,)](x)
triton.compiler.errors.CompilationError: at 11:23:
    a = tl.zeros((100,), tl.float32)
        ^
"""


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("", ""),
        (f"\n  {CAUSE}\n", CAUSE),
        (f"candidate.py:12: {CAUSE}\n    x = tl.zeros(n)\n        ^", CAUSE),
        (f'importing candidate.py raised {CAUSE}\n  File "candidate.py", line 3, in <module>', CAUSE),
        (f"builtins.ValueError: {CAUSE}", CAUSE),
        ("triton.compiler.errors.CompilationError: ValueError('Shape element 0 must be a power of 2')", CAUSE),
        ("triton.compiler.errors.CompilationError:                    ^", "CompilationError"),
        ("triton.compiler.errors.CompilationError: at 1:2:\n    f(x)\n    ^", "CompilationError"),
        (f"triton.compiler.errors.CompilationError: at 1:2:\n    f(x)\n    ^\n{CAUSE}", CAUSE),
        (INNER, CAUSE),
        (INNER + "TypeError('no')", "TypeError: no"),
        (f"\x1b[31m{CAUSE}\x1b[0m", CAUSE),
        ("after forward looked at values that compiling does not know: KeyError: x", "KeyError: x"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be", None),
    ],
)
def test_the_cause_is_one_line(message: str, cause: str | None) -> None:
    found = cause_of(message)
    assert "\n" not in found
    assert found == (message.splitlines()[0] if cause is None else cause)


def test_a_huge_text_is_looked_at_in_part() -> None:
    assert len(cause_of("x" * 100_000)) <= 1000
    assert len(masked("x y " * 1000)) <= 300


def test_a_shape_written_with_an_x_is_masked() -> None:
    assert masked("cannot multiply (16x64 and 128x64)") == masked("cannot multiply (1x4 and 12x4)")


def test_people_read_an_ellipsis_where_something_was_masked() -> None:
    text = masked("arange(0, 100): 'x_ptr' at /usr/lib/python3/a.py line 31 of 0xdeadbeef")
    assert "<n>" in text and "<name>" in text
    assert readable(text) == "arange…: … at … … of …"
    assert readable("a < b and <b>") == "a < b and <b>"
