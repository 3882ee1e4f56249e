"""Kernels of recorded searches as entries for the judge: the text, and what its publisher said of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from judge.sources.checks import case_for, declared_cases
from judge.values import DEFAULT_POLICY, Policy, ProblemSpec
from search.interchange.recording import RecordingRejected, read_recording, verdict_of_step
from tests.benchmarks.recorded.entries import Entry, distinct, published_as

# The kernels were accepted beside a reference that the same seed constructed, and many rely on it.
AS_PUBLISHED = Policy(equal_seeding=True)


def recorded_entries(paths: Iterable[Path], *, kind: str, policy: Policy = DEFAULT_POLICY) -> list[Entry]:
    """Every distinct kernel of these files, for a device of `kind`. Raises OSError and RecordingRejected."""
    found: list[Entry] = []
    for path in paths:
        try:
            recording = read_recording(path.read_bytes())
        except RecordingRejected as error:
            raise RecordingRejected(f"{path}: {error}") from error
        case = case_for(kind, declared_cases(recording.reference))
        spec = ProblemSpec(recording.reference, case, policy)
        found += [
            Entry(
                problem=path.name.split(".")[0],
                step=step.number,
                spec=spec,
                candidate=step.code,
                published=published_as(verdict_of_step(step), step.speedup),
                speedup=step.speedup,
                error=step.error,
            )
            for step in recording.steps
            if step.code.strip()
        ]
    return distinct(found)
