"""Long differences in a process of their own: at most two at once, a few seconds each. Pages of others do not wait.

`python -m search.diffing.aside` is that process: it reads the texts, writes the difference, and ends.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

from search.diffing.comparing import compare, longest
from search.diffing.values import ASIDE_S, SLOW, Diff, Options

ROOT = Path(__file__).resolve().parents[2]
_ROOM = threading.BoundedSemaphore(2)


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


if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(compare(*pickle.load(sys.stdin.buffer))))
