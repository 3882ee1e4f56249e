"""Taking a problem in: same text, same row; same file name, a new slug. Nothing is run here."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.text import slugify

from adaexplore_site.core.audit import action_on
from adaexplore_site.core.text import storable_text
from judge.problems.models import Problem
from judge.sources.checks import ProblemRejected, check_problem
from judge.values import text_hash

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
) -> tuple[Problem, bool]:
    """Store an uploaded file; (problem, created). A text that is already known returns its row, created False.

    `name` is the file name as sent, never trusted as a path. Raises ProblemRejected with the line and what to change.
    """
    facts = check_problem(data, max_bytes=settings.MAX_PROBLEM_BYTES)
    known = Problem.objects.filter(source_hash=text_hash(facts.text)).first()
    if known is not None:
        return known, False
    stem = clean_stem(name)
    row = Problem(
        title=storable_text(title or facts.title or title_from(stem))[:120],
        description=storable_text(facts.description),
        source=facts.text,
        source_hash=text_hash(facts.text),
        origin=origin,
        family=storable_text(facts.family),
        level=level[:40],
        created_by=user,
    )
    return _insert(row, slugify(stem)[:_SLUG_CHARS].strip("-") or "problem", key)


def _insert(row: Problem, base: str, key: str | None) -> tuple[Problem, bool]:
    """Insert under the first free slug. Unique columns decide between simultaneous uploads; a lost race tries on."""
    for _ in range(_TRIES):
        row.pk, row.slug = None, _free_slug(base)
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
    raise ProblemRejected(f"Too many uploads named {base!r} at this moment; try again.")


def _free_slug(base: str) -> str:
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
    words = re.sub(r"[_\-]+", " ", stem).strip()
    return words[:1].upper() + words[1:]
