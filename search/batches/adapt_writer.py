"""Who writes the task of one place: the built-in composer, or a model that is shown three seeds and three operators."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable

from django.template import Context, Engine

from adaexplore_site.core.llm import ChatClient, LLMError, endpoint_from_settings
from adaexplore_site.core.text import escaped as storable
from adaexplore_site.core.text import fenced
from memory.adapt.catalogue import Catalogue
from memory.adapt.composer import Composed, NothingComposed, compose, drawn
from memory.adapt.seeds import Seed
from search.batches.adapt_seeds import MODEL, catalogue, seed_problems
from search.ledger.prices import call_of
from search.proposers.exchange import FOLDER, fenced_blocks

TEMPLATE = "task.txt"

Writer = Callable[[str, int, int], Composed]  # (composer's name, seed of the adapt run, place)


class WriterAway(Exception):
    """The model cannot be asked. `permanent`: nor later, until a person changes something."""

    def __init__(self, message: str, *, permanent: bool) -> None:
        super().__init__(message)
        self.permanent = permanent


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
    """The one module of a reply; the whole reply where there is none: it is then refused, and kept for whoever asks."""
    blocks, _, _ = fenced_blocks(storable(text).replace("\r\n", "\n").replace("\r", "\n"))
    modules = [block for block in blocks if re.search(r"^class\s+Model\b", block, re.MULTILINE)]
    return modules[0] if len(modules) == 1 else storable(text)


__all__ = ["NothingComposed", "Writer", "WriterAway", "asked", "write_task"]
