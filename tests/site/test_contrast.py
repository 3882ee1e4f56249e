"""Colours of both themes meet WCAG 2.2 AA, and each is said once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSS = Path(__file__).resolve().parent.parent.parent / "static" / "css"
SURFACES = ("surface-page", "surface", "surface-sunken")
TEXTS = [
    *("text", "text-soft", "text-faint", "accent"),
    *(
        f"state-{name}"
        for name in ("correct", "best", "wrong", "compile-error", "slower", "running", "pruned", "waiting")
    ),
]
CODES = ["code-keyword", "code-string", "code-number", "code-name", "code-comment", "code-builtin", "code-decorator"]


def blocks(name: str) -> list[dict[str, str]]:
    """Colours of custom properties: light, dark."""
    text = (CSS / name).read_text()
    pairs = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", text)
    assert len(pairs) >= 7
    return [{found[0]: found[1 + dark] for found in pairs} for dark in (0, 1)]


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("sheet", sorted(path.name for path in CSS.glob("*.css")))
def test_each_colour_is_said_once_for_both_themes(sheet):
    text = (CSS / sheet).read_text()
    named = re.findall(r"--([\w-]+): light-dark\(", text)
    assert len(named) == len(set(named))
    assert not re.findall(r"--[\w-]+: (?:#|rgb)", text)  # a colour for one theme only
    assert "prefers-color-scheme" not in text
    assert re.findall(r"data-theme[^{]*\{([^}]*)\}", text) in ([], [" color-scheme: light; ", " color-scheme: dark; "])


@pytest.mark.parametrize("theme", [0, 1])
def test_text_and_states_read_on_every_surface(theme):
    colours = blocks("app.css")[theme]
    for text in TEXTS:
        for surface in SURFACES:
            assert contrast(colours[text], colours[surface]) >= 4.5, (text, surface)


@pytest.mark.parametrize("theme", [0, 1])
def test_notices_buttons_and_control_borders_read(theme):
    colours = blocks("app.css")[theme]
    for soft in ("correct", "best", "wrong", "compile-error", "waiting"):
        assert contrast(colours["text"], colours[f"soft-{soft}"]) >= 4.5
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
    assert contrast(colours["accent"], colours["accent-soft"]) >= 4.5
    assert contrast(colours["line-strong"], colours["surface"]) >= 3


@pytest.mark.parametrize("theme", [0, 1])
def test_code_reads_on_plain_added_and_removed_lines(theme):
    colours, codes = blocks("app.css")[theme], blocks("code.css")[theme]
    for code in CODES:
        for surface in ("surface", "diff-add", "diff-del"):
            assert contrast(codes[code], colours[surface]) >= 4.5, (code, surface)
