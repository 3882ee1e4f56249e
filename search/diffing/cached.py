"""Differences out of the cache; long ones are made in a process of their own, at most two at once, a few seconds each.

`python -m search.diffing.cached` is that process: it reads the texts, writes the difference, and ends.
"""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import pygments
from django.core.cache import caches

from search.diffing.comparing import ASIDE_LINES, ASIDE_S, SLOW, Diff, Options, compare, longest, too_long

ROOT = Path(__file__).resolve().parents[2]
_ROOM = threading.BoundedSemaphore(2)
FORMATTER = f"4-pygments-{pygments.__version__}"  # raise the number when the table or the colours change
KEPT_S = 3600
MOST_KEPT = 1_500_000  # characters of a table; longer ones are made anew


def compare_aside(old: str, new: str, options: Options, *, limit_s: float = ASIDE_S) -> Diff:
    """As `compare` does; what takes longer, the wait for a place included, says so instead."""
    slow = Diff(lines=longest(old, new), too_large=SLOW, options=options)
    until = time.monotonic() + limit_s
    if not _ROOM.acquire(timeout=limit_s):
        return slow
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=pickle.dumps((old, new, options)),
            capture_output=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
            timeout=max(until - time.monotonic(), 0.01),
            check=True,
        )
    except subprocess.TimeoutExpired:
        return slow
    finally:
        _ROOM.release()
    found = pickle.loads(done.stdout)
    assert isinstance(found, Diff)
    return found


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


if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(compare(*pickle.load(sys.stdin.buffer))))
