"""`make faults`: a storm on SQLite, then one on PostgreSQL. Two minutes in all, or FAULTS_MINUTES each."""

from __future__ import annotations

import os
import subprocess
import sys

from tests import tools

STORM = [sys.executable, "-m", "tests.faults.storm"]


def main() -> int:
    minutes = os.environ.get("FAULTS_MINUTES", "")
    seconds = str(60 * float(minutes) if minutes else 30)
    codes = [_storm("SQLite", seconds, "")]
    with tools.postgres() as url:
        if url:
            codes.append(_storm("PostgreSQL", seconds, url))
        else:
            print("PostgreSQL: SKIPPED, no server found and none could be installed (set TEST_DATABASE_URL)")
            codes.append(1 if os.environ.get("CI") else 0)
    return max(codes)


def _storm(name: str, seconds: str, url: str) -> int:
    print(f"== {name}: {seconds} s of kills, then the searches must end ==", flush=True)
    return subprocess.run(
        [*STORM, "--seconds", seconds], env={**os.environ, "DATABASE_URL": url}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
