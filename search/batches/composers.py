"""What writes a task: the built-in composer, or a model that is shown three seed problems and three operators."""

from __future__ import annotations

import hashlib
import random
import re
from functools import lru_cache

from django.conf import settings
from django.template import Context, Engine
from django.utils.translation import gettext

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.llm import ChatClient, LLMError, endpoint_from_settings
from adaexplore_site.core.text import escaped as storable
from adaexplore_site.core.text import fenced
from judge.libraries.operators import operators_document
from judge.problems.models import OFFERED, Problem
from memory.adapt.composing import SEEDS, Catalogue, Composed, Seed, catalogue_of, compose, drawn
from search.ledger.prices import call_of
from search.proposers.exchange import FOLDER, fenced_blocks

BUILTIN, MODEL = "builtin", "model"
TEMPLATE = "task.txt"


class WriterAway(Exception):
    """The model cannot be asked. `permanent`: nor later, until a person changes something."""

    def __init__(self, message: str, *, permanent: bool) -> None:
        super().__init__(message)
        self.permanent = permanent


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """The operators of the installed torch; the first time ever it takes some seconds. Raises JudgeError."""
    return catalogue_of(operators_document(settings.DATA_DIR))


def seed_problems() -> list[Seed]:
    """The shipped samples. Imported problems are left for the transfer: what was learned on them proves nothing."""
    rows = Problem.objects.filter(OFFERED, origin=Problem.Origin.SAMPLE).order_by("slug")
    return [Seed(slug, source) for slug, source in rows.values_list("slug", "source")]


def check_composer(name: str) -> None:
    """Raises ActionRefused when no composer of this name can work now, with what to do."""
    if name not in (BUILTIN, MODEL):
        raise ActionRefused(gettext("There is no composer %(name)r. Choose builtin or model.") % {"name": name})
    if name == MODEL and endpoint_from_settings().missing():
        raise ActionRefused(endpoint_from_settings().missing())
    if Problem.objects.filter(OFFERED, origin=Problem.Origin.SAMPLE).count() < SEEDS:
        text = gettext("Composing needs sample problems, at least %(n)d of them. Run manage.py seed_samples.")
        raise ActionRefused(text % {"n": SEEDS})


def write_task(composer: str, seed: int, place: int) -> Composed:
    """The task of this place. Raises NothingComposed, WriterAway or JudgeError."""
    if composer == MODEL:
        client = ChatClient(endpoint_from_settings(), rng=random.Random())
        return asked(client, seed=seed, place=place, known=catalogue(), seeds=seed_problems())
    return compose(seed=seed, place=place, catalogue=catalogue(), seeds=seed_problems())


def asked(client: ChatClient, *, seed: int, place: int, known: Catalogue, seeds: list[Seed]) -> Composed:
    """A model's task. Its recipe keeps what the call cost. Raises NothingComposed or WriterAway."""
    given = drawn(seed=seed, place=place, catalogue=known, seeds=seeds)
    text = (FOLDER / TEMPLATE).read_text(encoding="utf-8")
    shown = [fenced(one.source, "python") for one in given.seeds]
    names = ", ".join(operator.name for operator in given.operators)
    engine = Engine(autoescape=False).from_string(text)
    prompt = engine.render(Context({"seeds": shown, "operators": names}, autoescape=False)).strip() + "\n"
    try:
        answer = client.complete([{"role": "user", "content": prompt}])
    except LLMError as error:
        raise WriterAway(storable(str(error))[:500], permanent=error.permanent) from None
    recipe = {
        "seeds": [one.slug for one in given.seeds],
        "operators": [operator.name for operator in given.operators],
        "template": f"{TEMPLATE}@{hashlib.sha256(text.encode()).hexdigest()[:12]}",
        "call": call_of(answer),
    }
    return Composed("", _module(answer.text), recipe)


def _module(text: str) -> str:
    """The one module of a reply; else the whole reply, which is then refused and kept."""
    blocks, _, _ = fenced_blocks(storable(text).replace("\r\n", "\n").replace("\r", "\n"))
    modules = [block for block in blocks if re.search(r"^class\s+Model\b", block, re.MULTILINE)]
    return modules[0] if len(modules) == 1 else storable(text)
