"""Differences that were asked for before: by both texts' hashes, the options and the version of what writes them."""

from __future__ import annotations

import hashlib

import pygments
from django.core.cache import caches

from search.diffing.aside import compare_aside
from search.diffing.comparing import compare, longest, too_long
from search.diffing.values import ASIDE_LINES, SLOW, Diff, Options

FORMATTER = f"4-pygments-{pygments.__version__}"  # raise the number when the table or the colours change
KEPT_S = 3600
MOST_KEPT = 1_500_000  # characters of a table; longer ones are made anew


def diff(old: str, new: str, options: Options | None = None) -> Diff:
    """The difference from `old` to `new`, out of the cache where it is known."""
    options = options or Options()
    key = cache_key(old, new, options)
    kept = caches["diffs"]
    found = kept.get(key)
    if isinstance(found, Diff):
        return found
    aside = longest(old, new) > ASIDE_LINES and too_long(old, new, options) is None
    made = compare_aside(old, new, options) if aside else compare(old, new, options)
    if made.too_large != SLOW and sum(len(part.html) for part in made.parts) <= MOST_KEPT:
        kept.set(key, made, KEPT_S)
    return made


def cache_key(old: str, new: str, options: Options) -> str:
    """Equal for equal texts and options only."""
    flags = (options.unified, options.ignore_space, options.whole, options.large, options.plain)
    parts = [_sha256(old), _sha256(new), *("01"[flag] for flag in flags), *map(str, sorted(options.opened)), FORMATTER]
    return "diff-" + _sha256("\n".join(parts))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
