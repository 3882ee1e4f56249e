"""Status styles of nodes: one word for shape and colour, and its label."""

from __future__ import annotations

# Order is the wire format of the `s` column; the browser reads the words from the snapshot.
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
STYLES = tuple(LABELS)
