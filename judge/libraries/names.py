"""Which names the installed torch and Triton have: found once per pair of versions, kept in the data folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judge.libraries.asked_once import Question, answer, read

PROTOCOL = 1  # of judge.bench.names
QUESTION = Question("judge.bench.names", "names", "the names of torch and Triton", ("torch", "triton"), PROTOCOL)


def names_document(folder: Path, *, ask: bool = True) -> dict[str, Any] | None:
    """{"torch": version, "triton": version, "names": {module or class: [names]}} of what is installed.

    Made on first use, which takes some seconds; without `ask` None then. Raises JudgeError, and
    importlib.metadata.PackageNotFoundError on a machine without torch or Triton.
    """
    return answer(QUESTION, folder) if ask else read(QUESTION, QUESTION.path(folder))


def names_kept(folder: Path) -> Iterator[dict[str, Any]]:
    """The documents of every pair of versions that was ever installed here."""
    for path in sorted(folder.glob(f"{QUESTION.stem}-*-{PROTOCOL}.json")):
        if (found := read(QUESTION, path)) is not None:
            yield found
