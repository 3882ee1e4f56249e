"""Which pages have saved views, and which of their parameters a view holds: a cursor or a file's form is no view."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from django.urls import reverse
from django.utils.http import urlencode

PLACES: Mapping[str, tuple[str, tuple[str, ...]]] = {  # route -> its name to people, its parameters in order
    "run-list": ("Searches", ("state", "q", "device", "sort")),
    "kernel-list": ("Kernels", ("basis", "problem", "device", "dtype", "unassisted", "marked")),
    "failure-list": ("Failures", ("run", "stage", "problem", "sort", "muted")),
    "rule-list": ("Rules", ("tab", "q", "origin", "scope", "least", "flagged", "adapt", "sort", "rule")),
    "activity": ("Activity", ("who", "verb", "object", "from", "to")),
}
LONGEST, MOST_CHARS = 600, 120  # of a query, of a parameter


def query_of(place: str, text: str) -> str:
    """What of a query string belongs to a view of the page, in one order: equal views have equal texts."""
    given = dict(parse_qsl(text.removeprefix("?")[:4000]))
    kept = {name: given[name][:MOST_CHARS] for name in PLACES[place][1] if given.get(name)}
    query = urlencode(kept)
    while len(query) > LONGEST:  # percent signs make a text up to nine times as long
        kept.popitem()
        query = urlencode(kept)
    return query


def address_of(place: str, query: str) -> str:
    """A path of this site, whatever was stored."""
    return reverse(place) + (f"?{query}" if query else "")
