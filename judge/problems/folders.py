"""Problems by the folder: our own samples, and KernelBench-style collections. A bad file never stops the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from judge.problems.models import Problem
from judge.problems.services import problem_upload, title_from
from judge.sources.checks import ProblemRejected

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
_SKIPPED_FOLDERS = {"__pycache__", ".git", ".venv", "node_modules"}


@dataclass(frozen=True)
class ImportedFile:
    """What became of one file: "created", "known" (its text is a row already) or "refused" with the reason."""

    path: str
    state: str
    slug: str = ""
    reason: str = ""


def samples_seed() -> list[ImportedFile]:
    """Add the samples that are not there yet, by their text. Changes no existing row."""
    files = sorted(path for path in SAMPLES.glob("*.py") if path.name != "__init__.py")
    return [_take(path, path.name, origin=Problem.Origin.SAMPLE) for path in files]


def folder_import(*, path: Path, user: Any = None) -> Iterator[ImportedFile]:
    """Import one file, a flat folder, or `level1/1_name.py` folders, in numeric order; yields each file's fate.

    Raises FileNotFoundError when `path` does not exist.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    root = path.parent if path.is_file() else path
    files = [path] if path.is_file() else sorted(_python_files(path), key=lambda file: _order(file.relative_to(root)))
    for file in files:
        yield _take(
            file, str(file.relative_to(root)), origin=Problem.Origin.IMPORT, level=_level(file, path), user=user
        )


def _python_files(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*.py"):
        parts = file.relative_to(folder).parts[:-1]
        hidden = any(part in _SKIPPED_FOLDERS or part.startswith(".") for part in parts)
        if not hidden and file.name not in {"__init__.py", "setup.py", "conftest.py"}:
            yield file


def _order(path: Path) -> tuple[tuple[int, str], ...]:
    """`level2/9_x.py` before `level2/10_y.py`: the first number in each part counts, then the text."""
    numbers = [re.search(r"\d+", part) for part in path.parts]
    return tuple((int(n[0]) if n else 1 << 60, part) for n, part in zip(numbers, path.parts, strict=True))


def _level(file: Path, root: Path) -> str:
    """The nearest folder called level... (the given one included), or ""."""
    folders = [parent.name for parent in file.parents if root in parent.parents or parent == root]
    if root.is_file() or not folders:
        folders = [file.parent.name]
    return next((name for name in folders if re.fullmatch(r"level[\s_-]?\w+", name, flags=re.IGNORECASE)), "")


def _take(path: Path, shown: str, *, origin: str, level: str = "", user: Any = None) -> ImportedFile:
    try:
        if path.stat().st_size > settings.MAX_PROBLEM_BYTES:
            return ImportedFile(shown, "refused", reason=f"larger than {settings.MAX_PROBLEM_BYTES >> 10} KiB")
        data = path.read_bytes()
    except OSError as error:
        return ImportedFile(shown, "refused", reason=f"cannot be read: {error.strerror or error}")
    title = title_from(path.stem) if origin == Problem.Origin.IMPORT else ""
    try:
        problem, created = problem_upload(
            name=path.name, data=data, user=user, origin=origin, level=level, title=_titled(title, level)
        )
    except ProblemRejected as error:
        where = f"line {error.line}: " if error.line else ""
        return ImportedFile(shown, "refused", reason=where + error.message)
    return ImportedFile(shown, "created" if created else "known", slug=problem.slug)


def _titled(title: str, level: str) -> str:
    """ "level2" and "63 Gemm ReLU Divide" -> "L2 63 Gemm ReLU Divide"."""
    number = re.search(r"\d+", level)
    return f"L{number[0]} {title}" if number and title else title
