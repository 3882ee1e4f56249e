"""Reads a recorded search (AdaExplore's packed JSON, gzipped or not) into checked values; trusts nothing."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import re
import zlib
from dataclasses import dataclass
from typing import Any

from search.algorithm.tree import LARGE, SMALL

MAX_BYTES = 64 << 20
MAX_STEPS = 20_000
# "249×", "3.2x", "4-fold", "2 times"; not the "16x16" of a shape.
_FIGURE = re.compile(r"\d[\d.,]*\s?(?:[×xX](?!\w)|-?fold\b|times\b)")
_KINDS = {"large_step": LARGE, "small_step": SMALL}


class RecordingRejected(ValueError):
    """The file is no recorded search. The message says what is wrong and where."""


@dataclass(frozen=True)
class RecordedStep:
    """One told node. `number` counts steps 1, 2, ...; `speedup` is None unless the kernel was correct and timed."""

    number: int
    parent: int
    kind: str
    context: tuple[int, ...]
    loads: bool
    correct: bool
    speedup: float | None
    error: str
    code: str
    prompt: str
    figures: dict[str, Any]  # runtime, baseline and hardware as published


@dataclass(frozen=True)
class Recording:
    """One recorded search. `digest` is the hash of the unpacked file."""

    label: str
    run_dir: str
    reference: str
    hardware: str
    digest: str
    steps: tuple[RecordedStep, ...]

    @property
    def title(self) -> str:
        """The label up to its first speedup: a claim of the source must not stand in a title as if it were ours."""
        found = _FIGURE.search(self.label)
        return self.label[: found.start()].rstrip(" \t—–-:;,|(>→~≈<=") if found else self.label

    @property
    def level(self) -> str:
        """ "level2" when the label starts with "L2 /", else empty."""
        found = re.match(r"L(\d+)\s*/", self.label)
        return f"level{found[1]}" if found else ""


def read_recording(data: bytes) -> Recording:
    """The recording in these bytes. Raises RecordingRejected."""
    unpacked = _unpacked(data)
    try:
        document = json.loads(unpacked)
    except (ValueError, RecursionError) as error:
        raise RecordingRejected(f"This is not JSON ({error}). Expected a packed AdaExplore search.") from error
    if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
        raise RecordingRejected('There is no list "steps": this is not a packed AdaExplore search.')
    reference = document.get("reference_src")
    if not isinstance(reference, str) or not reference.strip():
        raise RecordingRejected('"reference_src", the source of the problem, is missing or empty.')
    rows = document["steps"]
    if not 2 <= len(rows) <= MAX_STEPS + 1:
        raise RecordingRejected(f"A search has from 1 to {MAX_STEPS} steps after its root; this has {len(rows) - 1}.")
    steps = _steps(rows)
    hardware = next((name for step in steps if (name := step.figures.get("hardware"))), "")
    return Recording(
        label=str(document.get("label") or "")[:200],
        run_dir=str(document.get("run_dir") or "")[:200],
        reference=reference,
        hardware=str(hardware)[:40] or "unknown",
        digest=hashlib.sha256(unpacked).hexdigest(),
        steps=steps,
    )


def _unpacked(data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        unpacked = data
    else:
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                unpacked = packed.read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise RecordingRejected(f"The gzip file is damaged ({error}). Fetch it again.") from error
    if len(unpacked) > MAX_BYTES:
        raise RecordingRejected(f"The file unpacks to more than {MAX_BYTES >> 20} MiB.")
    return unpacked


def _steps(rows: list[Any]) -> tuple[RecordedStep, ...]:
    """Check every row; node ids become step numbers."""
    numbers: dict[Any, int] = {}
    steps = []
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise RecordingRejected(f"Step {number} is not an object.")
        node_id = row.get("node_id")
        if not isinstance(node_id, int) or node_id in numbers:
            raise RecordingRejected(f"Step {number}: node_id must be a whole number used once, not {node_id!r}.")
        if number:
            steps.append(_step(number, row, numbers))
        elif row.get("parent_node_id") is not None:
            raise RecordingRejected("Step 0 must be the root: its parent_node_id is null.")
        numbers[node_id] = number
    return tuple(steps)


def _step(number: int, row: dict[str, Any], numbers: dict[Any, int]) -> RecordedStep:
    parent, context, score = row.get("parent_node_id"), row.get("context_node_ids") or [], row.get("score")
    if not isinstance(parent, int) or parent not in numbers:
        raise RecordingRejected(f"Step {number}: its parent {parent!r} is not an earlier node.")
    if not isinstance(context, list) or any(not isinstance(item, int) or item not in numbers for item in context):
        raise RecordingRejected(f"Step {number}: context_node_ids must list earlier nodes.")
    kind = row.get("created_by")
    if kind not in ("large_step", "small_step"):
        raise RecordingRejected(f"Step {number}: created_by must be large_step or small_step, not {kind!r}.")
    if not isinstance(score, dict):
        raise RecordingRejected(f'Step {number}: "score" is missing.')
    correct = score.get("correct") is True
    return RecordedStep(
        number=number,
        parent=numbers[parent],
        kind=_KINDS[kind],
        context=tuple(numbers[item] for item in context),
        loads=correct or score.get("compiled") is True,
        correct=correct,
        speedup=_speedup(number, score.get("fast_p")) if correct else None,
        error=_text(row, "error", number),
        code=_text(row, "code", number),
        prompt=_text(row, "prompt", number),
        figures={
            name: row.get(name) for name in ("runtime_us", "baseline_time_us", "hardware") if _plain(row.get(name))
        },
    )


def _speedup(number: int, value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise RecordingRejected(f"Step {number}: fast_p must be a speedup, not {value!r}.")
    return float(value) or None


def _text(row: dict[str, Any], name: str, number: int) -> str:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise RecordingRejected(f"Step {number}: {name} must be text.")
    return value or ""


def _plain(value: Any) -> bool:
    """A text or a finite number, nothing else."""
    return isinstance(value, str) or (isinstance(value, int | float) and math.isfinite(value))
