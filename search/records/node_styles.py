"""Status styles of nodes: one word for shape and colour, from state, verdict and speedup."""

from __future__ import annotations

from judge.evaluations.measures import verdict_look
from search.records.models import Node

# Order is the wire format of the `s` column; the browser reads the words from the snapshot.
STYLES = (
    "root",
    "proposing",
    "judging",
    "waiting",
    "correct",
    "slower",
    "wrong",
    "compile-error",
    "suspect",
    "cancelled",
)

LABELS = {
    "root": "start",
    "proposing": "proposing",
    "judging": "judging",
    "waiting": "waiting for a manual reply",
    "correct": "correct",
    "slower": "correct, slower",
    "wrong": "failed",
    "compile-error": "does not compile",
    "suspect": "not settled",
    "cancelled": "withdrawn",
}


def style_of(
    *, kind: str, state: str, verdict: str | None, speedup: float | None, by_hand: bool = False, doubt: str = ""
) -> str:
    """One of `STYLES`. A completed node without a verdict ended without a candidate and counts as failed."""
    if doubt:
        return "suspect"
    if kind == Node.Kind.ROOT:
        return "root"
    if state == Node.State.PROPOSING:
        return "waiting" if by_hand else "proposing"
    if state == Node.State.JUDGING:
        return "judging"
    if state == Node.State.CANCELLED:
        return "cancelled"
    return verdict_look(verdict or "", speedup)
