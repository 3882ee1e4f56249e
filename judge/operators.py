"""The catalogue of operators of the installed torch: found once per version by a child, kept in the data folder."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from judge.values import JudgeError

PROJECT = Path(__file__).parent.parent
PROTOCOL = 2  # of judge.bench.operators: another one is another catalogue
LIMIT_S = 180.0


def operators_document(folder: Path) -> dict[str, Any]:
    """{"torch": version, "operators": [...]}; made on first use, which takes some seconds. Raises JudgeError."""
    path = folder / f"operators-{metadata.version('torch')}-{PROTOCOL}.json"
    known = _read(path)
    return _made(path) if known is None else known


def _made(path: Path) -> dict[str, Any]:
    """Ask the child, one at a time over all processes: who waits finds what the other was told."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # freed with the process, too
        known = _read(path)
        if known is None:
            known = _asked()
            mine = path.with_suffix(".new")
            mine.write_text(json.dumps(known), encoding="utf-8")
            mine.replace(path)  # whole or not at all
    return known


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("protocol") == PROTOCOL else None


def _asked() -> dict[str, Any]:
    kept = ("PATH", "HOME", "LANG", "TMPDIR")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    env |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "judge.bench.operators"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=env)
        found = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise JudgeError(f"torch's operators could not be listed: {type(error).__name__}") from error
    if not isinstance(found, dict) or found.get("protocol") != PROTOCOL:
        raise JudgeError("torch's operators could not be listed: the child speaks another protocol")
    return found
