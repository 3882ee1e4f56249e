"""The whole suite, as `make test` runs it: SQLite beside a real browser and PostgreSQL, then what a stop-watch decides.
Says what it skipped and why.

`python -m tests.run --part PostgreSQL [tests/site/test_notices.py]` runs one part, or some tests as that part does.
Exit status 0 only when every part that could run passed; with CI set, a part that could not run is a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import tools
from tests.databases import listed, missing
from tests.migrated import template

PYTEST = [sys.executable, "-m", "pytest", "-q", "--durations=12", "--durations-min=4"]
PAGES = "tests/browser"
ROAD = "tests/browser/test_whole_road.py"
STOLEN = ["--ignore", PAGES, "-p", "tests.databases", "-n", str(min(4, os.cpu_count() or 1)), "--dist", "worksteal"]
PARTS = {
    "SQLite": ["tests", *STOLEN, "-m", "not quiet"],
    # What a database decides. Tests that own real processes gain nothing from a second one.
    "PostgreSQL": [*listed(), *STOLEN, "-m", "django_db and not bench"],
    # Tests of one file share the servers behind them.
    "Browser": [PAGES, "--ignore", ROAD, "-n", "2", "--dist", "loadfile"],
    "Whole road": [ROAD],
    # What a stop-watch decides. Pages and PostgreSQL have no such tests (tests/site/test_parts.py).
    "Quiet": ["tests", "--ignore", PAGES, "-n", "0", "-m", "quiet"],
}
# Lanes run side by side, the parts of each one after another: what waits for a process or a page leaves the processor
# to the other lane. The last part has the machine to itself.
LANES = (("SQLite",), ("Browser", "PostgreSQL", "Whole road"))
ALONE = "Quiet"
printing = threading.Lock()


@dataclass(frozen=True)
class Result:
    """How a part ended. `computed_s` is processor time, without servers that its processes did not wait for."""

    part: str
    status: str
    seconds: float = 0.0
    computed_s: float = 0.0
    failed: tuple[str, ...] = ()


@contextlib.contextmanager
def environment(part: str) -> Iterator[dict[str, str] | str]:
    """The environment of a part, embedded defaults unless it needs more; or why it can't run."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"DATABASE_URL": "", "REDIS_URL": "", "ADAEXPLORE_DATA": ""}
    if part in ("SQLite", ALONE):
        yield env
    elif part == "PostgreSQL":
        with tools.postgres() as url:
            why = "no server found and none could be installed (set TEST_DATABASE_URL)"
            own = url is not None and "TEST_DATABASE_URL" not in os.environ
            yield env | {"DATABASE_URL": url, "MIGRATED": template(url) if own else ""} if url else why
    else:
        chromium = tools.ensure_chromium()
        why = "no Chromium found and none could be installed (set CHROMIUM)"
        yield env | {"CHROMIUM": chromium} if chromium else why


def run(part: str, seed: int, folder: Path) -> Result:
    """One part. Its output is printed whole when it has ended, as others run beside it."""
    queried = folder / part
    queried.mkdir()
    with environment(part) as env, tempfile.TemporaryFile("w+") as output:
        if isinstance(env, str):
            return Result(part, f"SKIPPED: {env}")
        print(f"{part} begins", flush=True)
        begun = time.monotonic()
        first = part in (LANES[0][0], ALONE)
        command = [*([] if first else ["nice", "-n", "5"]), *PYTEST, *PARTS[part], f"--randomly-seed={seed}"]
        env["QUERIED"] = str(queried)
        with subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.STDOUT) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read()
    with printing:
        print(f"\n== {part} ==\n{said}", flush=True)
    ended = f"FAILED (exit {process.returncode})" if process.returncode else "passed"
    failed = tuple(re.findall(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE))
    return Result(part, ended, time.monotonic() - begun, used.ru_utime + used.ru_stime, failed)


def compared(folder: Path) -> Result:
    """Whether every function of the product that queried SQLite queried PostgreSQL, too."""
    places = missing(folder / "SQLite", folder / "PostgreSQL")
    for place, test in places.items():
        print(f"{place}: no test asks PostgreSQL its queries; {test} asks SQLite")
    status = f"FAILED: {len(places)} functions (list such tests in tests/postgresql.txt)" if places else "passed"
    return Result("Queries on both", status)


def report(results: list[Result], seed: int, seconds: float) -> int:
    print(f"\n== Summary == {seconds:.0f} s on {os.cpu_count()} cores")
    for result in results:
        took = f"  {result.seconds:.0f} s, computed for {result.computed_s:.0f} s" if result.seconds else ""
        print(f"{result.part:16} {result.status}{took}")
    if not os.environ.get("ADAEXPLORE_FIXTURES"):
        print("ADAEXPLORE_FIXTURES is not set: tests on published recorded searches were skipped.")
    print("PostgreSQL runs what tests/postgresql.txt lists: what commits, and enough to query from every function.")
    print("Tests marked cuda run only where a CUDA device is found; they are counted as skipped elsewhere.")
    for result in results:
        if result.failed:
            again = ["python", "-m", "tests.run", "--part", result.part, f"--randomly-seed={seed}", *result.failed[:9]]
            print(f"{result.part} failed {len(result.failed)} times. Again: {shlex.join(again)}")
    bad = ("FAILED", "SKIPPED") if "CI" in os.environ else "FAILED"
    return int(any(result.status.startswith(bad) for result in results))


def main() -> int:
    ask = argparse.ArgumentParser(description="Run the whole suite, or one part of it.")
    ask.add_argument("--part", choices=PARTS, help="this part alone; what follows goes to pytest instead of its tests")
    given, told = ask.parse_known_args()
    if given.part:
        with environment(given.part) as env:
            if isinstance(env, str):
                raise SystemExit(env)
            return subprocess.call([*PYTEST, *(told or PARTS[given.part])], env=env)
    begun, seed = time.monotonic(), random.randrange(2**32)
    with tempfile.TemporaryDirectory(prefix="adaexplore-run-") as place, ThreadPoolExecutor() as pool:
        folder = Path(place)
        lanes = [pool.submit(lambda lane=lane: [run(part, seed, folder) for part in lane]) for lane in LANES]
        results = [result for lane in lanes for result in lane.result()]
        results.append(run(ALONE, seed, folder))
        if all(result.status == "passed" for result in results if result.part in ("SQLite", "PostgreSQL")):
            results.append(compared(folder))
    return report(results, seed, time.monotonic() - begun)


if __name__ == "__main__":
    sys.exit(main())
