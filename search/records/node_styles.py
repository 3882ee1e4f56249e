"""Status styles of nodes: one word for shape and colour, and its label."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

# Order is the wire format of the `s` column; the browser reads the labels from the snapshot.
LABELS = {
    "root": _("start"),
    "proposing": _("proposing"),
    "judging": _("judging"),
    "waiting": _("waiting for a manual reply"),
    "correct": _("correct"),
    "slower": _("correct, slower"),
    "wrong": _("failed"),
    "compile-error": _("does not compile"),
    "suspect": _("not settled"),
    "cancelled": _("withdrawn"),
}
STYLES = tuple(LABELS)
