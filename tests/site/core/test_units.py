"""Plain quantities for people, at the borders where their unit changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from judge.templatetags.units import flop_rate, microseconds, percent, si_bytes, significant


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0.0229, "0.0229 µs"), (12.34, "12.3 µs"), (999.4, "999 µs"), (999.9, "1 ms"), (1e6 - 1, "1 s"),
        (2.5e6, "2.5 s"), (3.6e9, "3,600 s"), (None, "—"), ("", "—"),
    ],
)  # fmt: skip
def test_times(us: float, text: str) -> None:
    assert microseconds(us) == text


@pytest.mark.parametrize(
    ("filter_", "value", "text"),
    [
        (percent, 0.611, "61 %"), (percent, 0.0028, "0.28 %"), (percent, 5.2, "520 %"), (percent, None, "—"),
        (significant, 0.2437, "0.244"), (significant, 1370.2, "1,370"), (significant, None, "—"),
        (si_bytes, 4390.0, "4.39 TB"), (si_bytes, 960.0, "960 GB"), (si_bytes, None, "—"),
        (flop_rate, 6.7e13, "67 TFLOP/s"), (flop_rate, None, "—"),
    ],
)  # fmt: skip
def test_figures(filter_, value: float, text: str) -> None:
    assert filter_(value) == text


def test_no_sentence_writes_us_for_microseconds_or_x_for_times() -> None:
    """In what people read: sentences made in code, and templates. Names of fields and columns stay ASCII."""
    house = Path(__file__).parents[3]
    sources = [path for room in ("judge", "search", "memory") for path in (house / room).rglob("*.py")]
    sources += [path for path in (house / "templates").rglob("*.*") if path.suffix in (".html", ".txt")]
    wrong = re.compile(r"\} us\b|:\.?\d?[fg,]*\}x(?![\w-])|[}] ?x[ <\[]within")
    found = [
        f"{path.relative_to(house)}: {line.strip()}"
        for path in sources
        for line in path.read_text(encoding="utf-8").splitlines()
        if wrong.search(line)
    ]
    assert not found, found
