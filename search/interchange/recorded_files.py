"""Recorded searches that lie on this machine, in the folder that ADAEXPLORE_FIXTURES names. The product ships none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from adaexplore_site.core import env

FOLDER = "recorded_searches"
ENDINGS = (".json.gz", ".json", ".zip")
MOST = 60


@dataclass(frozen=True)
class RecordedFile:
    """One file by name, with its size in bytes."""

    name: str
    size: int


def recorded_files() -> list[RecordedFile]:
    """Files that can be imported, by name; none where the variable is not set or names no folder."""
    folder = _folder()
    if folder is None:
        return []
    try:
        found = sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS) and path.is_file())
        return [RecordedFile(path.name, path.stat().st_size) for path in found[:MOST]]
    except OSError:
        return []


def recorded_read(name: str) -> bytes | None:
    """The bytes of a file that `recorded_files` lists; None for any other name. Raises OSError."""
    folder = _folder()
    if folder is None or name not in {file.name for file in recorded_files()}:
        return None
    return (folder / name).read_bytes()


def _folder() -> Path | None:
    named = env.text("ADAEXPLORE_FIXTURES")
    return Path(named) / FOLDER if named else None
