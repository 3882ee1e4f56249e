"""What the tasks of an adapt run are made of: the catalogue of torch's operators, and problems to start from."""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.llm import endpoint_from_settings
from judge.libraries.operators import operators_document
from judge.problems.models import Problem
from memory.adapt.composing import SEEDS, Catalogue, Seed, catalogue_of

BUILTIN, MODEL = "builtin", "model"


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """The operators of the installed torch; the first time ever it takes some seconds. Raises JudgeError."""
    return catalogue_of(operators_document(settings.DATA_DIR))


def seed_problems() -> list[Seed]:
    """The shipped samples. Imported problems are left for the transfer: what was learned on them proves nothing."""
    rows = Problem.objects.filter(origin=Problem.Origin.SAMPLE).order_by("slug")
    return [Seed(slug, source) for slug, source in rows.values_list("slug", "source")]


def check_composer(name: str) -> None:
    """Raise ActionRefused when nobody of this name can compose now, with what to do."""
    if name not in (BUILTIN, MODEL):
        raise ActionRefused(f"There is no composer {name!r}. Choose builtin or model.")
    if name == MODEL and endpoint_from_settings().missing():
        raise ActionRefused(endpoint_from_settings().missing())
    if Problem.objects.filter(origin=Problem.Origin.SAMPLE).count() < SEEDS:
        raise ActionRefused(
            f"Composing starts from the shipped samples, at least {SEEDS} of them. Run manage.py seed_samples."
        )
