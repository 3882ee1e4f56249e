"""What a child of the bench reports of the installed libraries: asked once per version, kept in the data folder."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from judge.values import JudgeError

PROJECT = Path(__file__).parents[2]
LIMIT_S = 180.0


@dataclass(frozen=True)
class Question:
    """`module` prints one JSON document with its `protocol`; another version of one of `packages` is another answer."""

    module: str
    stem: str
    what: str  # in words, for the fault
    packages: tuple[str, ...]
    protocol: int

    def path(self, folder: Path) -> Path:
        """Raises importlib.metadata.PackageNotFoundError."""
        versions = "-".join(metadata.version(name) for name in self.packages)
        return folder / f"{self.stem}-{versions}-{self.protocol}.json"


def answer(question: Question, folder: Path) -> dict[str, Any]:
    """The document; made on first use, which takes some seconds. Raises JudgeError."""
    path = question.path(folder)
    known = read(question, path)
    return _made(question, path) if known is None else known


def read(question: Question, path: Path) -> dict[str, Any] | None:
    """What is kept there; None where nothing is, or nothing whole."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("protocol") == question.protocol else None


def _made(question: Question, path: Path) -> dict[str, Any]:
    """Ask the child, one at a time over all processes: who waits finds the other's answer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # freed with the process, too
        known = read(question, path)
        if known is None:
            known = _asked(question)
            mine = path.with_suffix(".new")
            mine.write_text(json.dumps(known), encoding="utf-8")
            mine.replace(path)  # whole or not at all
    return known


def _asked(question: Question) -> dict[str, Any]:
    kept = ("PATH", "HOME", "LANG", "TMPDIR")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    env |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", question.module]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=env)
        found = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise JudgeError(f"{question.what} could not be listed: {type(error).__name__}") from error
    if not isinstance(found, dict) or found.get("protocol") != question.protocol:
        raise JudgeError(f"{question.what} could not be listed: the child speaks another protocol")
    return found
