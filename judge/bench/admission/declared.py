"""The cases of a problem beside the evaluated one. Every entry of `get_cases()` is a correctness case: here it is
decided which of them a device can be asked, for the preflight and for every evaluation."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from judge.bench.admission.size import preview, too_large
from judge.bench.foreign.loading import PROBLEM, LoadedProblem, load_problem
from judge.values import GPU_CASE

MOST = 8  # each costs a reference and a model in every evaluation
MADE_FOR_GPUS = "it is made for GPUs"
TOO_MANY = f"only {MOST} cases are asked beside the evaluated one"


@contextmanager
def with_case(loaded: LoadedProblem, name: str) -> Iterator[LoadedProblem]:
    """The same problem under another of its cases, in a module of its own. Raises LoadError."""
    path = Path(str(loaded.module.__file__))
    try:
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            yield load_problem(path.read_text(encoding="utf-8"), name, folder, loaded.whereabouts)
    finally:
        sys.modules[PROBLEM] = loaded.module


def other_cases(loaded: LoadedProblem, *, on_gpu: bool) -> dict[str, str]:
    """Each case but the evaluated one, with why this device is not asked it; empty where it is.

    Those with a weight come first: they are always among the asked ones, as far as they fit. The interpreter is asked
    what shapes alone show to be small enough. Raises LoadError.
    """
    found: dict[str, str] = {}
    for name in sorted(loaded.cases, key=lambda case: case not in loaded.weights):
        if name != loaded.case:
            asked = sum(not why for why in found.values())
            found[name] = TOO_MANY if asked == MOST else "" if on_gpu else _too_large(loaded, name)
    return found


def _too_large(loaded: LoadedProblem, name: str) -> str:
    if name == GPU_CASE:
        return MADE_FOR_GPUS
    with with_case(loaded, name) as other:
        return too_large(other, preview(other))
