"""Time of a difference, cold and out of the cache. Run by hand: python -m tests.load.diff [lines] [rounds].

The lines are real code of this repository, every seventh one changed; each round compares texts that nobody has seen.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adaexplore_site.settings")
django.setup()

from django.core.cache import caches  # noqa: E402

from judge.sources import highlighting  # noqa: E402
from search.diffing.cached import diff  # noqa: E402
from search.diffing.comparing import Options  # noqa: E402

SOURCES = ("search/algorithm/steering.py", "judge/sources/highlighting.py", "search/proposers/builtin/kernels.py")


def texts(lines: int, salt: int) -> tuple[str, str]:
    """Two versions of code with this many lines; another `salt` gives other texts."""
    root = Path(__file__).resolve().parent.parent.parent
    body = [line for name in SOURCES for line in (root / name).read_text().split("\n")]
    old = [f"{line}  # {salt}" if place % 50 == 0 else line for place, line in enumerate((body * 99)[:lines])]
    new = [f"{line}  # {place}" if place % 7 == 3 else line for place, line in enumerate(old)]
    return "\n".join(old), "\n".join(new)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", nargs="?", type=int, default=300)
    parser.add_argument("rounds", nargs="?", type=int, default=30)
    given = parser.parse_args()
    options = Options(large=True)
    diff("import os\n", "import sys\n")  # the lexer loads its tables once a process
    cold: list[float] = []
    again: list[float] = []
    for salt in range(given.rounds):
        old, new = texts(given.lines, salt)
        for times in (cold, again):
            if times is not again:
                caches["diffs"].clear()
                highlighting.token_lines.cache_clear()
            begun = time.perf_counter()
            diff(old, new, options)
            times.append((time.perf_counter() - begun) * 1000)
    for name, times in (("cold", cold), ("cached", again)):
        p95 = sorted(times)[int(0.95 * (len(times) - 1))]
        median = statistics.median(times)
        print(f"{given.lines} lines, {name:13}: median {median:.1f} ms, p95 {p95:.1f} ms, n={len(times)}")


if __name__ == "__main__":
    main()
