"""The comment block at the top of a corpus file: `# key: value` lines, then an empty `#`, then prose. Text only.

    # title: a thread finishes the result after forward returned
    # exploit: 3
    # problem: row_scale
    # devices: cpu cuda
    # expect: wrong value. time. | suspect time.
    # expect cuda: pass +library.share
    #
    # How it tries to fool the judge.

Several acceptable endings are divided by `|`: a verdict, prefixes of reason codes, `+` and prefixes of findings, and
`!faster` for a pass that must not be called faster than eager: the attack came to nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from judge.selftest.entries import GAINLESS, Expected

KEYS = frozenset(
    {
        "title", "exploit", "problem", "case", "policy", "sealed", "devices", "expect", "base", "replace", "admit",
        "incumbent", "comparisons", "repeat", "timing", "audit", "quick", "limits", "pad",
    }
)  # fmt: skip
REPEATED = frozenset({"sealed", "replace"})
_LINE = re.compile(r"# ([a-z]+)(?: ([a-z]+))?: (.+)")


class BadEntry(ValueError):
    """A corpus file that says nothing usable; the text names the file, the line and what to change."""


@dataclass(frozen=True)
class Header:
    """Parsed keys. `expected` by kind of bench, "" for all others."""

    values: dict[str, str]
    lists: dict[str, tuple[str, ...]]
    expected: dict[str, tuple[Expected, ...]]
    lines: int  # how long the comment block is

    def flag(self, key: str, default: bool) -> bool:
        """Value of a yes/no key. Raises BadEntry."""
        text = self.values.get(key)
        if text not in (None, "yes", "no"):
            raise BadEntry(f"{key}: {text!r} is neither yes nor no")
        return default if text is None else text == "yes"

    def count(self, key: str, default: int | None = None) -> int | None:
        """Value of a whole number key. Raises BadEntry."""
        text = self.values.get(key)
        if text is None:
            return default
        if not text.isdigit():
            raise BadEntry(f"{key}: {text!r} is no whole number")
        return int(text)


def parse_header(text: str) -> Header:
    """Read the comment block. Raises BadEntry for an unknown or repeated key and for an ending that does not parse."""
    values: dict[str, str] = {}
    lists: dict[str, list[str]] = {key: [] for key in REPEATED}
    expected: dict[str, tuple[Expected, ...]] = {}
    block = _block(text)
    for number, line in enumerate(block, start=1):
        if line == "#":
            break
        match = _LINE.fullmatch(line)
        if match is None or match[1] not in KEYS or (match[2] and match[1] != "expect"):
            raise BadEntry(f"line {number}: {line!r} is no key of a header; prose comes after an empty '#'")
        key, kind, value = match[1], match[2] or "", match[3].strip()
        if key in REPEATED:
            lists[key].append(value)
        elif (key in values and key != "expect") or (key == "expect" and kind in expected):
            raise BadEntry(f"line {number}: {key} is there twice")
        elif key == "expect":
            expected[kind] = endings(value)
        else:
            values[key] = value
    return Header(values, {key: tuple(rows) for key, rows in lists.items()}, expected, len(block))


def endings(text: str) -> tuple[Expected, ...]:
    """Endings divided by `|`. Raises BadEntry for an unknown verdict."""
    found = []
    for part in text.split("|"):
        words = part.split()
        if not words:
            raise BadEntry(f"expect: an empty ending in {text!r}")
        try:
            found.append(
                Expected(
                    words[0],
                    tuple(word for word in words[1:] if word != GAINLESS and not word.startswith("+")),
                    tuple(word[1:] for word in words[1:] if word.startswith("+")),
                    GAINLESS in words[1:],
                )
            )
        except ValueError as error:
            raise BadEntry(f"expect: {error}") from error
    return tuple(found)


def _block(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.rstrip())
    return lines
