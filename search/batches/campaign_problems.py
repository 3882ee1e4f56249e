"""Which problems a campaign takes: by level, state, origin and words, in the order a benchmark counts them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.db.models import Q

from adaexplore_site.actions.fields import TextListField
from judge.problems.models import Problem


@dataclass(frozen=True)
class Filter:
    """Empty fields filter nothing. `level` is a folder's name such as level2, or its number."""

    level: str = ""
    state: str = ""
    origin: str = ""
    q: str = ""

    @property
    def empty(self) -> bool:
        return not (self.level or self.state or self.origin or self.q)


def filtered(chosen: Filter) -> list[Problem]:
    """Problems that match, without sources, in numeric order of level and title; composed ones by their origin only."""
    rows = Problem.objects.defer("source", "description")
    if chosen.level:
        rows = rows.filter(Q(level__iexact=chosen.level) | Q(level__iregex=rf"^level[\s_-]?{re.escape(chosen.level)}$"))
    if chosen.state:
        rows = rows.filter(state=chosen.state)
    rows = rows.filter(origin=chosen.origin) if chosen.origin else rows.exclude(origin=Problem.Origin.SYNTHETIC)
    if chosen.q:
        rows = rows.filter(Q(title__icontains=chosen.q) | Q(slug__icontains=chosen.q))
    return in_order(rows)


def by_slugs(slugs: list[str]) -> tuple[list[Problem], list[str]]:
    """(problems in the order given, slugs that no problem has)."""
    rows = {problem.slug: problem for problem in Problem.objects.defer("source", "description").filter(slug__in=slugs)}
    wanted = list(dict.fromkeys(slugs))
    return [rows[slug] for slug in wanted if slug in rows], [slug for slug in wanted if slug not in rows]


class ProblemsField(TextListField):
    """Slugs of problems. `clean` gives the rows, without sources, in the order given."""

    def __init__(self, *, most: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.most = most

    def clean(self, value: Any) -> list[Problem]:  # type: ignore[override]
        """Raises ValidationError for none, for more than `most`, and for a slug that no problem has."""
        slugs = list(dict.fromkeys(slug[:80] for slug in super().clean(value)))
        if len(slugs) > self.most:
            raise forms.ValidationError(f"Choose up to {self.most} problems; these are {len(slugs)}.")
        problems, missing = by_slugs(slugs)
        if missing:
            raise forms.ValidationError(f"There is no problem {missing[0]!r} any more. Choose again.")
        return problems


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """`L2 9 ...` before `L2 10 ...`."""
    return sorted(problems, key=lambda one: (_number(one.level), _natural(one.title), one.slug))


def levels() -> list[str]:
    """The levels there are, in numeric order."""
    found = Problem.objects.exclude(level="").order_by().values_list("level", flat=True).distinct()
    return sorted(found, key=lambda level: (_number(level), level))


def _number(level: str) -> int:
    found = re.search(r"\d+", level)
    return int(found[0]) if found else 1 << 30


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Digits by their value, words by their letters."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part.lower()) for part in re.findall(r"\d+|\D+", text)]
