"""A command on a data folder that nobody prepared says what to do, without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_command_on_a_new_data_folder_says_how_to_prepare_it(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "DJANGO_SETTINGS_MODULE")}
    asked = subprocess.run(
        [sys.executable, ROOT / "manage.py", "campaign", "list"],
        env={**kept, "ADAEXPLORE_DATA": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert asked.returncode == 1 and "Traceback" not in asked.stderr
    assert "lacks tables (no such table: search_campaign). Run `make run`, or `manage.py migrate`" in asked.stderr
