"""The pictures of docs/visual-language.md, from the product's own shapes, colours and scale.

`python -m tests.visual_language` writes them into docs/img; a test compares.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "img"
STATES = (
    ("correct", "correct"), ("best", "new best"), ("slower", "correct, slower than eager"), ("wrong", "failed"),
    ("compile-error", "does not compile"), ("suspect", "not settled, quarantined"), ("running", "in flight"),
    ("waiting", "waits"), ("paused", "paused"), ("pruned", "pruned, withdrawn"), ("pinned", "pinned"),
    ("person", "manual influence"), ("tied", "its interval overlaps the best"), ("at-bound", "bytes not counted"),
    ("root", "start"), ("ok", "passed, ended well"), ("warned", "degenerate, warning"), ("pending", "not yet"),
)  # fmt: skip
COLOURS = {
    "best": "state-best", "wrong": "state-wrong", "compile-error": "state-compile-error",
    "warned": "state-compile-error",
    "slower": "state-slower", "running": "state-running", "waiting": "state-waiting", "paused": "state-waiting",
    "suspect": "state-waiting", "pruned": "state-pruned", "pending": "state-pruned", "root": "state-pruned",
    "pinned": "state-best", "person": "state-running",
}  # fmt: skip
POINTS = ((0.65, "slower"), (1.3, "correct"), (2.9, "correct"), (6.1, "best"))


def tokens(theme: int) -> dict[str, str]:
    """Colours of the stylesheet, light (0) or dark (1)."""
    css = (ROOT / "static" / "css" / "app.css").read_text()
    pairs = re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]+), (#[0-9a-f]+)\)", css)
    return {name: (light, dark)[theme] for name, light, dark in pairs}


def svg(width: int, height: int, title: str, body: str) -> str:
    """A picture that follows the reader's theme."""
    used = sorted(set(re.findall(r"var\(--([a-z-]+)\)", body)) | {"surface", "text", "text-soft"})
    themes = ["".join(f"--{name}:{tokens(theme)[name]};" for name in used) for theme in (0, 1)]
    style = (
        f":root{{{themes[0]}}}@media(prefers-color-scheme:dark){{:root{{{themes[1]}}}}}"
        "text{font:13px system-ui,sans-serif;fill:var(--text)}.soft{fill:var(--text-soft)}.mono{font-family:monospace}"
        ".line{fill:none;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{title}"><title>{title}</title><style>{style}</style>'
        f'<rect width="{width}" height="{height}" fill="var(--surface)"/>{body}</svg>\n'
    )


def mark(name: str, x: float, y: float, size: float = 12) -> str:
    """A state's shape in its colour."""
    from judge.templatetags.marks import shape_of

    style, path = shape_of(name)
    colour = f"var(--{COLOURS.get(name, 'state-correct')})"
    paint = f'class="line" stroke="{colour}"' if "line" in style else f'fill="{colour}"'
    return f'<g transform="translate({x - size / 2} {y - size / 2}) scale({size / 12})"><path {paint} d="{path}"/></g>'


def states() -> str:
    """Every state: shape, colour, word."""
    body = ""
    for place, (name, word) in enumerate(STATES):
        x, y = 22 + 235 * (place % 3), 24 + 30 * (place // 3)
        body += mark(name, x, y) + f'<text x="{x + 16}" y="{y + 4.5}">{word}</text>'
    return svg(720, 24 + 30 * -(-len(STATES) // 3), "States by shape, colour and word", body)


def speedup() -> str:
    """The one scale: powers of two, eager dashed, and how an interval and a band stand on it."""
    from adaexplore_site.core.plots import speedup_axis, speedup_ticks

    axis = speedup_axis([0.65, 6.5], 60, 680)
    body = ""
    for tick in speedup_ticks(axis):
        dash = ' stroke-dasharray="4 4" stroke="var(--line-strong)"' if tick.label == "1×" else ' stroke="var(--line)"'
        body += f'<path d="M{tick.at} 24V110"{dash}/>'
        body += f'<text class="soft" x="{tick.at}" y="128" text-anchor="middle">{tick.label}</text>'
    body += f'<text class="soft" x="{axis.at(1.0) + 5}" y="20">eager</text>'
    for value, name in POINTS:
        x, low, high = axis.at(value), axis.at(value * 0.9), axis.at(value * 1.11)
        body += f'<path d="M{low} 66H{high}M{low} 61v10M{high} 61v10" stroke="var(--text-soft)" fill="none"/>'
        body += mark(name, x, 66)
    body += f'<text x="{axis.at(6.1)}" y="96" text-anchor="middle">6.10× [5.49–6.77] n=48 measured</text>'
    return svg(760, 140, "The scale of speedups, with intervals", body)


def bases() -> str:
    """Where a number comes from, beside it."""
    body = ""
    rows = (
        ("2.31× [2.24–2.38] n=48", "measured", False), ("1.7× within 2.3×", "MODELLED", True),
        ("5.53×", "reported, not measured here", True), ("0.769 [0.751 … 0.788] n=200", "SIMULATED", True),
    )  # fmt: skip
    for place, (number, word, framed) in enumerate(rows):
        x, y = 20 + 360 * (place % 2), 30 + 34 * (place // 2)
        start = x + 8 * len(number) + 8
        wide = (8.9 if word.isupper() else 7.2) * len(word) + 10
        body += f'<text x="{x}" y="{y}" class="mono">{number}</text>'
        body += f'<text class="soft" x="{start + 6}" y="{y}">{word}</text>'
        if framed:
            body += f'<rect x="{start}" y="{y - 15}" width="{wide:.0f}" height="21" rx="4" fill="none" '
            body += 'stroke="var(--line-strong)" stroke-dasharray="3 3"/>'
    return svg(720, 84, "How a number says where it comes from", body)


def band() -> str:
    """Best so far with its band, a tie, a failure; and a forecast."""
    body = '<path d="M40 20V110H330" stroke="var(--line)" fill="none"/>'
    body += '<path d="M80 92H170V72H80ZM170 62H330V38H170Z" fill="var(--state-best)" opacity=".2"/>'
    body += '<path d="M80 82H170V50H240" stroke="var(--state-best)" stroke-width="2" fill="none"/>'
    body += '<path d="M240 50H330" stroke="var(--state-best)" stroke-width="2" stroke-dasharray="5 4"/>'
    body += mark("best", 80, 82) + mark("best", 170, 50) + mark("tied", 240, 55) + mark("wrong", 125, 104, 10)
    body += '<text class="soft" x="40" y="132">best so far, its interval, a tie</text>'
    body += '<path d="M400 20V110H690" stroke="var(--line)" fill="none"/>'
    body += '<path d="M540 66L640 110H690Z" fill="var(--accent)" opacity=".25"/>'
    body += '<path d="M400 24H450V38H500V52H540V66" stroke="var(--accent)" stroke-width="2" fill="none"/>'
    body += '<text class="soft" x="400" y="132">what is left, and the forecast as a range</text>'
    return svg(720, 146, "A band is an interval, a wedge is a forecast", body)


PICTURES = {"visual-states": states, "visual-speedup": speedup, "visual-bases": bases, "visual-bands": band}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw())
        sys.stdout.write(f"{FOLDER / name}.svg\n")


if __name__ == "__main__":
    main()
