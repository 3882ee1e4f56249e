"""What changed between two wordings, word by word. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True)
class Piece:
    """A stretch of text: "same", "gone" or "new"."""

    kind: str
    text: str


def changes(old: str, new: str) -> tuple[Piece, ...]:
    """Pieces that give `old` without the new ones and `new` without the gone ones. At most 1,000 letters."""
    before, after = _words(old), _words(new)
    pieces: list[Piece] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            pieces.append(Piece("same", "".join(before[i1:i2])))
            continue
        pieces += [Piece("gone", "".join(before[i1:i2]))] if i2 > i1 else []
        pieces += [Piece("new", "".join(after[j1:j2]))] if j2 > j1 else []
    return tuple(pieces)


def _words(text: str) -> list[str]:
    return re.findall(r"\s+|\w+|[^\w\s]", text)
