"""An adapt run whose process is killed again and again ends like one that nobody kills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.search.adapt_killed import CONTROL, STEPS, TASKS

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_kill_9_at_any_moment_loses_and_doubles_nothing(tmp_path):
    env = {**os.environ, "ADAEXPLORE_DATA": str(tmp_path), "DATABASE_URL": "", "REDIS_URL": ""}
    command = [sys.executable, "-m", "tests.search.adapt_killed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, env=env, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    killed, calm = found["killed"], found["calm"]
    assert found["deaths"] >= 1, "it was over before it was killed"
    assert (killed["state"], killed["driven"], killed["unlearned"]) == ("finished", False, 0)
    assert killed["places"] == list(range(1, TASKS + 1))
    for shown, control in killed["searches"]:
        assert (len(shown["sources"]), len(control["sources"])) == (STEPS, CONTROL)
        assert len(set(shown["sources"])) == STEPS
    assert killed["failures"] > 0
    assert killed == calm
