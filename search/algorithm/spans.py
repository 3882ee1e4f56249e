"""Numbers of nodes in short, `3-7,9`: in the log an act on thousands of nodes takes few bytes."""

from __future__ import annotations

from collections.abc import Iterable


def spans(numbers: Iterable[int], most_chars: int) -> list[str]:
    """The numbers in ascending order, as texts of up to about `most_chars` letters. No numbers: no text."""
    texts: list[str] = []
    for first, last in _runs(sorted(set(numbers))):
        part = str(first) if first == last else f"{first}-{last}"
        if texts and len(texts[-1]) + 1 + len(part) <= most_chars:
            texts[-1] += f",{part}"
        else:
            texts.append(part)
    return texts


def spans_read(text: str) -> tuple[int, ...]:
    """The numbers of one such text. Raises ValueError for any other."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        found += range(int(first), int(last) + 1) if dash else [int(first)]
    return tuple(found)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
