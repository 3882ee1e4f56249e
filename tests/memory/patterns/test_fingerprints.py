"""Failures of one cause share a fingerprint, whatever their accidents."""

from __future__ import annotations

import pytest

from memory.patterns.fingerprints import fingerprint
from memory.patterns.messages import masked


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (
            "candidate.py:12: NameError: name 'foo' is not defined",
            "candidate.py:99: NameError: name 'bar' is not defined",
        ),
        ("out of resource: shared memory, Required: 262144", "out of resource: shared memory, Required: 500000"),
        ("shape mismatch: got (4, 8), want (4, 16)", "shape mismatch: got (2, 3, 4), want (9,)"),
        ("TypeError: <function f at 0x7f3a2b> is no kernel", "TypeError: <function f at 0x6c01> is no kernel"),
        ("cannot open /tmp/a1/x.py", "cannot open /home/someone/y.py"),
        ("CompilationError: at 14:22: unexpected BLOCK_M", "CompilationError: at 3:1: unexpected BLOCK_SIZE_N"),
    ],
)
def test_accidents_do_not_matter(left: str, right: str) -> None:
    assert fingerprint("compile", "compile.error", left) == fingerprint("compile", "compile.error", right)


def test_different_causes_differ() -> None:
    message = "it broke"
    keys = {
        fingerprint("compile", "compile.error", message),
        fingerprint("smoke", "compile.error", message),
        fingerprint("compile", "compile.resources", message),
        fingerprint("compile", "compile.error", "something else"),
    }
    assert len(keys) == 4


def test_a_mask_leaves_no_number_path_or_name() -> None:
    text = masked("\x1b[31mKeyError\x1b[0m: 'x_ptr' at /usr/lib/python3/a.py line 31: 0xdeadbeef 1.5e-3")
    assert not any(character.isdigit() for character in text)
    assert "x_ptr" not in text
    assert "/usr" not in text


def test_an_empty_message_has_a_cluster_too() -> None:
    assert fingerprint("load", "load.import", "") == fingerprint("load", "load.import", "\n ")


def test_a_cluster_outlives_how_microseconds_are_written() -> None:
    keys = {fingerprint("timing", "x", f"was claimed to take 3.0 {unit} a call").key for unit in ("us", "µs")}
    assert len(keys) == 1
