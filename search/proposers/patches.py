"""Patches of a small step: numbered (reason, old text, new text), applied in order, all or none.

PATCH 1: why
<<<<<<< OLD
text that stands in the kernel exactly once
=======
text to put in its place
>>>>>>> NEW
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import whitespace

MAX_PATCHES = 64

# Lines of strangers: possessive patterns, which retry nothing, on the beginning of a line only.
_OPEN = re.compile(r"<{7} ?(?:OLD|SEARCH)\s*+$")
_MIDDLE = re.compile(r"={7}\s*+$")
_CLOSE = re.compile(r">{7} ?(?:NEW|REPLACE)\s*+$")
_HEAD = re.compile(r"\W*+PATCH\s*+#?\s*+\d++\s*+[:.)–-]?", re.IGNORECASE)
MOST_PLACES = 10  # told of an old text that is not there once


@dataclass(frozen=True)
class Patch:
    """Replace `old` by `new` (lines joined by \\n, no line end at the end); `number` is its place in the reply."""

    number: int
    reason: str
    old: str
    new: str


class PatchMismatch(ValueError):
    """At least one old text does not stand in the kernel exactly once; the message names each."""


def has_patches(text: str) -> bool:
    """True when some line opens a patch."""
    return any(_OPEN.match(line) for line in text.split("\n"))


def parse_patches(text: str) -> list[Patch]:
    """The patches in order. Raises ValueError for an unfinished, empty or endless list, or an empty old text."""
    patches: list[Patch] = []
    reason = ""
    part: list[str] | None = None
    old: list[str] = []
    for line in text.split("\n"):
        if part is None:
            head = _HEAD.match(line)
            reason = line[head.end() :].lstrip().rstrip(f"*{whitespace}") if head else reason
            if _OPEN.match(line):
                old = part = []
        elif part is old and _MIDDLE.match(line):
            part = []
        elif part is not old and _CLOSE.match(line):
            patches.append(_patch(len(patches) + 1, reason, old, part))
            part, reason = None, ""
        elif _OPEN.match(line):
            raise ValueError(f"Patch {len(patches) + 1} is not closed before the next one begins.")
        else:
            part.append(line)
    if part is not None:
        raise ValueError(f"Patch {len(patches) + 1} is never closed: the reply was cut off or is malformed.")
    return patches


def _patch(number: int, reason: str, old: list[str], new: list[str]) -> Patch:
    if number > MAX_PATCHES:
        raise ValueError(f"More than {MAX_PATCHES} patches: send the whole module instead.")
    if not "".join(old).strip():
        raise ValueError(f"Patch {number} has no old text to look for.")
    return Patch(number, reason, "\n".join(old), "\n".join(new))


def apply_patches(source: str, patches: list[Patch]) -> str:
    """`source` after all patches, each applied to the result of the one before. Raises PatchMismatch: none applied."""
    text = source.replace("\r\n", "\n")
    problems = []
    for patch in patches:
        found = _apply(text, patch)
        if isinstance(found, int):
            problems.append(f"patch {patch.number}: its old text stands in the kernel {_times(found)}, not once")
        else:
            text = found
    if problems:
        raise PatchMismatch("No patch was applied: " + "; ".join(problems) + ".")
    return text


def _apply(text: str, patch: Patch) -> str | int:
    """The patched text; else how often the old text was found by the strictest reading that found any."""
    count = len(_places(text, patch.old))
    if count:
        return text.replace(patch.old, patch.new, 1) if count == 1 else count
    for old, new in ((patch.old, patch.new), (_trim(patch.old), _trim(patch.new))):
        places = _line_places(text, old)
        if places:
            return _splice(text, places[0], old, new) if len(places) == 1 else len(places)
    return 0


def _places(text: str, part: str) -> list[int]:
    """Where `part` stands, overlapping places included (str.count would call two of them one); at most MOST_PLACES."""
    places: list[int] = []
    at = text.find(part)
    while at >= 0 and len(places) < MOST_PLACES:
        places.append(at)
        at = text.find(part, at + 1)
    return places


def _line_places(text: str, old: str) -> list[int]:
    """First lines of the places where the lines of `old` stand, trailing blanks ignored; at most MOST_PLACES."""
    lines, wanted = ("".join(f"\n{line.rstrip()}" for line in each.split("\n")) + "\n" for each in (text, old))
    return [lines.count("\n", 0, at) for at in _places(lines, wanted)]


def _splice(text: str, first: int, old: str, new: str) -> str:
    lines = text.split("\n")
    lines[first : first + old.count("\n") + 1] = new.split("\n")
    return "\n".join(lines)


def _trim(text: str) -> str:
    """Without the blank lines at both ends."""
    lines = text.split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return "\n".join(lines[filled[0] : filled[-1] + 1]) if filled else ""


def _times(count: int) -> str:
    if count == 0:
        return "nowhere"
    return f"{count} times" if count < MOST_PLACES else f"at least {MOST_PLACES} times"
