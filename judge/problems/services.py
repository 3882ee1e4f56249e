"""Problems come in: one by one, or a folder of files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.text import slugify
from django.utils.translation import gettext as _

from adaexplore_site.core.audit import action_on
from adaexplore_site.core.text import storable_text
from judge.problems.models import Problem
from judge.sources.checks import ProblemRejected, SourceFacts, check_problem
from judge.values import (
    GRADIENTS,
    PRECISIONS,
    Gradients,
    Policy,
    Precision,
    ProblemSpec,
)

__all__ = ["ProblemRejected", "problem_upload"]

_SLUG_CHARS = 70  # leaves room for a suffix within the column's 80
_TRIES = 20


def problem_upload(
    *,
    name: str,
    data: bytes,
    user: Any = None,
    origin: str = Problem.Origin.UPLOAD,
    title: str = "",
    level: str = "",
    key: str | None = None,
    precision: Precision = Precision.STRICT,
    gradients: Gradients = Gradients.NONE,
) -> tuple[Problem, bool]:
    """Store an uploaded file; (problem, created). A text that is already known under these numerics and with these
    gradients returns its row, created False.

    `name` is the file name as sent, never trusted as a path. Raises ProblemRejected with the line and what to change.
    """
    facts = check_problem(data, max_bytes=settings.MAX_PROBLEM_BYTES)
    spec = ProblemSpec(facts.text, policy=Policy(precision=precision, gradients=gradients))
    known = Problem.objects.filter(source_hash=spec.hash).first()
    if known is not None:
        return known, False
    stem = clean_stem(name)
    base = slugify(stem)[:_SLUG_CHARS].strip("-") or "problem"
    named = _named(spec.policy)
    row = Problem(
        title=storable_text(title or facts.title or title_from(stem))[: 120 - len(named)] + named,
        **text_fields(facts),
        source_hash=spec.hash,
        policy=spec.policy.to_json(),
        origin=origin,
        level=level[:40],
        created_by=user,
    )
    return _insert(row, base, key)


def _named(policy: Policy) -> str:
    """What a title ends in, for policies other than the default."""
    parts = [PRECISIONS[policy.precision]] if policy.precision is not Precision.STRICT else []
    parts += [GRADIENTS[policy.gradients]] if policy.gradients is not Gradients.NONE else []
    return f" ({', '.join(parts)})" if parts else ""


def text_fields(facts: SourceFacts) -> dict[str, str]:
    """What a text says of itself, as columns of its row."""
    return {
        "source": facts.text,
        "description": storable_text(facts.description),
        "family": storable_text(facts.family),
    }


def _insert(row: Problem, base: str, key: str | None) -> tuple[Problem, bool]:
    """Insert under the first free slug. Unique columns decide between simultaneous uploads; a lost race tries on."""
    for _try in range(_TRIES):
        row.pk, row.slug = None, free_slug(base)
        try:
            with transaction.atomic():
                row.save(force_insert=True)
                if row.origin == Problem.Origin.UPLOAD and row.created_by is not None:
                    after = {"slug": row.slug, "title": row.title}
                    action_on(verb="problem.upload", on=("problem", row.pk), user=row.created_by, key=key, after=after)
        except IntegrityError:
            winner = Problem.objects.filter(source_hash=row.source_hash).first()
            if winner is not None:
                return winner, False
        else:
            return row, True
    raise ProblemRejected(_("Too many uploads named %(name)r at this moment; try again.") % {"name": base})


def free_slug(base: str) -> str:
    """`base`, or `base-2`, `base-3`, ...: the first that no row has."""
    taken = set(Problem.objects.filter(slug__startswith=base).values_list("slug", flat=True))
    number, slug = 1, base
    while slug in taken:
        number += 1
        slug = f"{base}-{number}"
    return slug


def clean_stem(name: str) -> str:
    """The file's own name without folders, suffix or control characters; "problem" when nothing is left."""
    last = PurePosixPath(name.replace("\\", "/")).name
    stem = re.sub(r"\.py$", "", last, flags=re.IGNORECASE)
    return re.sub(r"[^\w.\- ]+", "", stem).strip(". -_")[:100] or "problem"


def title_from(stem: str) -> str:
    """ "63_Gemm_ReLU_Divide" -> "63 Gemm ReLU Divide"."""
    title = re.sub(r"[_\-]+", " ", stem).strip()
    return title[:1].upper() + title[1:]


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


def folder_import(
    *,
    path: Path,
    user: Any = None,
    precision: Precision = Precision.STRICT,
    gradients: Gradients = Gradients.NONE,
) -> Iterator[ImportedFile]:
    """Import one file, a flat folder, or `level1/1_name.py` folders, in numeric order; yields each file's fate.

    Raises FileNotFoundError when `path` does not exist.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    root = path.parent if path.is_file() else path
    files = [path] if path.is_file() else sorted(_python_files(path), key=lambda file: _order(file.relative_to(root)))
    for file in files:
        yield _take(
            file,
            str(file.relative_to(root)),
            origin=Problem.Origin.IMPORT,
            level=_level(file, path),
            user=user,
            precision=precision,
            gradients=gradients,
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


def _take(
    path: Path,
    shown: str,
    *,
    origin: str,
    level: str = "",
    user: Any = None,
    precision: Precision = Precision.STRICT,
    gradients: Gradients = Gradients.NONE,
) -> ImportedFile:
    try:
        if path.stat().st_size > settings.MAX_PROBLEM_BYTES:
            return ImportedFile(shown, "refused", reason=f"larger than {settings.MAX_PROBLEM_BYTES >> 10} KiB")
        data = path.read_bytes()
    except OSError as error:
        return ImportedFile(shown, "refused", reason=f"cannot be read: {error.strerror or error}")
    title = title_from(path.stem) if origin == Problem.Origin.IMPORT else ""
    try:
        problem, created = problem_upload(
            name=path.name,
            data=data,
            user=user,
            origin=origin,
            level=level,
            title=_titled(title, level),
            precision=precision,
            gradients=gradients,
        )
    except ProblemRejected as error:
        where = f"line {error.line}: " if error.line else ""
        return ImportedFile(shown, "refused", reason=where + error.message)
    return ImportedFile(shown, "created" if created else "known", slug=problem.slug)


def _titled(title: str, level: str) -> str:
    """ "level2" and "63 Gemm ReLU Divide" -> "L2 63 Gemm ReLU Divide"."""
    number = re.search(r"\d+", level)
    return f"L{number[0]} {title}" if number and title else title
