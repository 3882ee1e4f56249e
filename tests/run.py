"""The whole suite, as `make test` runs it: SQLite, PostgreSQL, real browser. Says plainly what it skipped and why.

Exit status 0 only when every part that could run passed; with CI set, a part that could not run is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests import tools

PYTEST = [sys.executable, "-m", "pytest", "-q", "--durations=12", "--durations-min=4"]
PAGES = "tests/browser"
ROAD = "tests/browser/test_whole_road.py"  # judges for real, against the clock: beside nothing else
# Tests that own no rows or own real processes gain nothing from a second database.
POSTGRES = "django_db and not bench"
# Neither do those that render pages or work in Python on rows they have read. Locks, constraints, order, JSON and
# services run on both; so do the queries of every page, with rows behind it (site/test_page_list.py and
# site/test_every_address.py).
ONE_DATABASE = (
    "judge/evaluations/test_evaluation_page.py",
    "judge/problems/test_problem_pages.py",
    "judge/selftest/test_selftest_page.py",
    "memory/failures/test_failure_pages.py",
    "memory/prompting/test_planted_effect.py",
    "memory/rules/test_rule_pages.py",
    "search/batches/test_adapt_pages.py",
    "search/ledger/test_budget_panel.py",
    "search/batches/test_campaign_pages.py",
    "search/compare/test_compare_page.py",
    "search/fleet/test_device_pages.py",
    "search/lab/test_lab_pages.py",
    "search/live/test_live_pages.py",
    "search/nodes/test_node_page.py",
    "search/pictures/test_pictures.py",
    "search/interchange/test_published_figures.py",
    "search/steering/test_refused_forms.py",
    "search/runs/test_run_new_page.py",
    "search/replay/test_run_replay.py",
    "search/steering/test_steering_pages.py",
    "site/settings_pages/test_settings_pages.py",
)


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


def _once() -> list[Path]:
    """The files that SQLite alone runs; SystemExit for one that is gone."""
    paths = [Path(__file__).parent / name for name in ONE_DATABASE]
    if gone := [str(path) for path in paths if not path.exists()]:
        raise SystemExit(f"tests/run.py names files that are gone: {', '.join(gone)}")
    return paths


def main() -> int:
    workers = ["-n", str(min(4, os.cpu_count() or 1)), "--dist", "worksteal"]
    parts = [_pytest("SQLite", ["--ignore", PAGES, *workers], _clean())]
    with tools.postgres() as url:
        if url:
            kept = [f"--ignore={path}" for path in _once()]
            parts.append(
                _pytest("PostgreSQL", ["-m", POSTGRES, "--ignore", PAGES, *kept, *workers], _clean(DATABASE_URL=url))
            )
        else:
            parts.append(
                Part("PostgreSQL", "SKIPPED: no server found and none could be installed (set TEST_DATABASE_URL)")
            )
    chromium = tools.ensure_chromium()
    if chromium:
        pages = [PAGES, "--ignore", ROAD, "-n", "2", "--dist", "loadfile"]
        parts.append(_pytest("Browser", pages, _clean(CHROMIUM=chromium)))
        parts.append(_pytest("Whole road", [ROAD], _clean(CHROMIUM=chromium)))
    else:
        parts.append(Part("Browser", "SKIPPED: no Chromium found and none could be installed (set CHROMIUM)"))
    return _report(parts)


def _report(parts: list[Part]) -> int:
    print("\n== Summary ==")
    for part in parts:
        print(f"{part.name:12} {part.status}  {part.seconds:.0f} s")
    if not os.environ.get("ADAEXPLORE_FIXTURES"):
        print("ADAEXPLORE_FIXTURES is not set: tests on published recorded searches were skipped.")
    print(f"{len(ONE_DATABASE)} files of tests that a second database would not decide ran on SQLite only.")
    print("Tests marked cuda run only where a CUDA device is found; they are counted as skipped elsewhere.")
    bad = [
        p for p in parts if p.status.startswith("FAILED") or (p.status.startswith("SKIPPED") and os.environ.get("CI"))
    ]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
