"""Rule files: one `rule||count` a line, as AdaExplore publishes its memory (github StigLidu/AdaExplore). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

MARK = "||"
MAX_TEXT = 1000
MAX_LINES = 20_000
MAX_BYTES = 4 << 20
MAX_FAULTS = 20  # told at once


class BadRuleFile(ValueError):
    """The file cannot be taken. The message names every bad line, up to `MAX_FAULTS`, and what to change."""


@dataclass(frozen=True)
class Line:
    """One rule of a file, with the count that stands behind it there."""

    text: str
    count: float


def read_rules(data: bytes) -> tuple[Line, ...]:
    """The rules of a file in order, equal lines once. Raises BadRuleFile; blank lines are skipped."""
    if len(data) > MAX_BYTES:
        raise BadRuleFile(f"The file has more than {MAX_BYTES >> 20} MiB. Split it.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadRuleFile(f"Line {line} is not UTF-8 text. Save the file as UTF-8 and try again.") from None
    faults: list[str] = []
    found: dict[str, tuple[int, Line]] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        if not raw.strip():
            continue
        try:
            rule = _line(raw)
        except ValueError as error:
            faults.append(f"Line {number}: {error}")
            continue
        first, known = found.setdefault(rule.text, (number, rule))
        if known.count != rule.count:
            faults.append(f"Line {number}: it repeats the rule of line {first} with another count. Keep one of them.")
    if faults:
        raise BadRuleFile(_told(faults))
    if not found:
        raise BadRuleFile("The file holds no rule. Each line must be a rule, two bars and a count: rule||3.")
    if len(found) > MAX_LINES:
        raise BadRuleFile(f"The file holds {len(found)} rules; {MAX_LINES} fit. Split it.")
    return tuple(line for _, line in found.values())


def _line(raw: str) -> Line:
    """Raises ValueError with a sentence."""
    text, mark, count = raw.strip("\r").rpartition(MARK)
    text = text.strip()
    if not mark:
        raise ValueError("there are no two bars between rule and count. Write rule||3.")
    if not text:
        raise ValueError("there is no text before the bars.")
    if len(text) > MAX_TEXT:
        raise ValueError(f"the rule has {len(text)} characters; {MAX_TEXT} fit.")
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise ValueError("the rule holds control characters. Remove them.")
    try:
        value = float(count)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"the count {count.strip()[:20]!r} is no number from 0 up.")
    return Line(text, value)


def _told(faults: list[str]) -> str:
    more = len(faults) - MAX_FAULTS
    lines = [*faults[:MAX_FAULTS], *([f"and {more} more."] if more > 0 else [])]
    return "Nothing was imported. " + "\n".join(lines)


def write_rules(lines: Iterable[Line]) -> str:
    """The file's text: one line each, counts with at least one decimal as published ("34.0")."""
    return "".join(f"{line.text}{MARK}{float(line.count)!r}\n" for line in lines)
