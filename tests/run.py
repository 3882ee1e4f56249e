"""The whole suite, as `make test` runs it: SQLite, PostgreSQL, real browser. Says plainly what it skipped and why.

Exit status 0 only when every part that could run passed; with CI set, a part that could not run is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass

from tests import tools

PYTEST = [sys.executable, "-m", "pytest", "-q", "--durations=12", "--durations-min=4"]
# Tests that own no rows or own real processes gain nothing from a second database.
SQLITE = "not browser"
POSTGRES = "django_db and not browser and not bench"
ROAD = "tests/browser/test_whole_road.py"  # judges for real, against the clock: beside nothing else


@dataclass
class Part:
    name: str
    status: str
    seconds: float = 0.0


def _pytest(name: str, args: list[str], env: dict[str, str]) -> Part:
    print(f"\n== {name} ==", flush=True)
    begun = time.monotonic()
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    code = subprocess.run([*PYTEST, *args], env={**given, **env}, check=False).returncode
    return Part(name, "passed" if code == 0 else f"FAILED (exit {code})", time.monotonic() - begun)


def _clean(**extra: str) -> dict[str, str]:
    """The environment of a part: embedded defaults unless the part says otherwise."""
    return {"DATABASE_URL": "", "REDIS_URL": "", "ADAEXPLORE_DATA": "", **extra}


def main() -> int:
    workers = ["-n", str(min(4, os.cpu_count() or 1)), "--dist", "loadfile"]
    parts = [_pytest("SQLite", ["-m", SQLITE, *workers], _clean())]
    with tools.postgres() as url:
        if url:
            parts.append(_pytest("PostgreSQL", ["-m", POSTGRES, *workers], _clean(DATABASE_URL=url)))
        else:
            parts.append(
                Part("PostgreSQL", "SKIPPED: no server found and none could be installed (set TEST_DATABASE_URL)")
            )
    chromium = tools.ensure_chromium()
    if chromium:
        pages = ["--ignore", ROAD, "-n", "2", "--dist", "loadfile"]
        parts.append(_pytest("Browser", ["-m", "browser", *pages], _clean(CHROMIUM=chromium)))
        parts.append(_pytest("Whole road", ["-m", "browser", ROAD], _clean(CHROMIUM=chromium)))
    else:
        parts.append(Part("Browser", "SKIPPED: no Chromium found and none could be installed (set CHROMIUM)"))
    return _report(parts)


def _report(parts: list[Part]) -> int:
    print("\n== Summary ==")
    for part in parts:
        print(f"{part.name:12} {part.status}  {part.seconds:.0f} s")
    if not os.environ.get("ADAEXPLORE_FIXTURES"):
        print("ADAEXPLORE_FIXTURES is not set: tests on published recorded searches were skipped.")
    print("Tests marked cuda run only where a CUDA device is found; they are counted as skipped elsewhere.")
    bad = [
        p for p in parts if p.status.startswith("FAILED") or (p.status.startswith("SKIPPED") and os.environ.get("CI"))
    ]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
