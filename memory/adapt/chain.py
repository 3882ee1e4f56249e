"""A chain of operators with consistent sizes, and which chains would make a poor problem. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from memory.adapt.catalogue import DoesNotFit, Form, Operator, Sizes

HEAVY = ("matmul", "conv", "norm", "reduction", "pool")  # at least one of them: else a kernel has little to do
MOST_SMALL = 24_000  # elements of any tensor in the small case: the interpreter runs element by element
MOST_LARGE = 1 << 26
LEAST_LARGE = 1 << 14  # of the result on a GPU
LEAST_SIZE = 2
NEW_SMALL = (16, 24, 32, 48)
NEW_LARGE = {"matmul": (512, 768, 1024, 2048), "conv": (32, 64, 128)}


@dataclass(frozen=True)
class Link:
    """One operator at its place: what goes in and out. `other` is where a second operand comes from: the number of an
    earlier result (0 is the first input), -1 a second input."""

    operator: Operator
    form: Form
    given: Sizes
    out: Sizes
    other: int | None = None


class Poor(ValueError):
    """This chain makes no good problem."""


def linked(operators: Sequence[Operator], sizes: Sizes, rng: random.Random) -> tuple[Link, ...]:
    """The operators in this order on an input of these sizes. Raises Poor, or DoesNotFit."""
    links: list[Link] = []
    for operator in operators:
        given = links[-1].out if links else sizes
        forms = operator.at(len(given))
        if not forms:
            raise DoesNotFit("no form for this rank")
        form = rng.choice(forms)
        new = (rng.choice(NEW_SMALL), rng.choice(NEW_LARGE.get(operator.category, NEW_LARGE["conv"])))
        out = form.sizes(given, new)
        _check_sizes(out)
        link = Link(operator, form, given, out, _other(operator, links, given, sizes, rng))
        _check_pair(links, link)
        links.append(link)
    if math.prod(large for _, large in links[-1].out) < LEAST_LARGE:
        raise Poor("too little is left at the end")
    return tuple(links)


def ordered(operators: Sequence[Operator], rng: random.Random) -> list[Operator]:
    """Some order with a reduction towards the end: what follows it has little left to do."""
    mixed = list(operators)
    rng.shuffle(mixed)
    rest = [one for one in mixed if one.kind != "reduction"]
    last = [one for one in mixed if one.kind == "reduction"]
    if last and len(rest) > 2 and rng.random() < 0.4:
        return [*rest[:-1], *last, rest[-1]]
    return [*rest, *last]


def _other(operator: Operator, links: list[Link], given: Sizes, sizes: Sizes, rng: random.Random) -> int | None:
    if operator.kind != "binary":
        return None
    shapes = [sizes, *(link.out for link in links)]
    earlier = [number for number, shape in enumerate(shapes[:-1]) if shape == given]
    if earlier and rng.random() < 0.6:
        return rng.choice(earlier)
    if any(link.other == -1 for link in links):
        raise Poor("a second input is enough")
    return -1


def _check_sizes(out: Sizes) -> None:
    if any(size < LEAST_SIZE for sizes in out for size in sizes):
        raise Poor("a size falls below two")
    if math.prod(small for small, _ in out) > MOST_SMALL or math.prod(large for _, large in out) > MOST_LARGE:
        raise Poor("a tensor grows too large")


def _check_pair(links: list[Link], link: Link) -> None:
    """Neighbours that undo each other, or leave nothing to compute; large inputs where they end in infinity."""
    form = link.form
    if form.overflows and not (links and links[-1].form.bounded):
        raise Poor("it grows beyond all bounds")
    if not links:
        return
    before = links[-1].form
    if links[-1].operator.category == link.operator.category:
        raise Poor("two of one kind in a row")
    if before.nonnegative and form.keeps_positive:
        raise Poor("it would change nothing")
    settled = before.centred or before.sums_to_one
    if settled and link.operator.category in ("reduction", "norm"):
        raise Poor("its answer is known before")
    if links[-1].operator.category == "norm" and link.operator.category in ("reduction", "pool"):
        raise Poor("a normalised tensor is averaged away")


def check_whole(operators: Sequence[Operator]) -> None:
    """Raises Poor for a set of operators that no order helps."""
    categories = [operator.category for operator in operators]
    if not any(category in HEAVY for category in categories):
        raise Poor("nothing but elements")
    for category, most in (("reduction", 1), ("matmul", 1), ("norm", 1), ("layout", 1), ("conv", 2), ("pool", 1)):
        if categories.count(category) > most:
            raise Poor(f"more {category} than is good")
    if len(set(categories)) < min(3, len(categories)):
        raise Poor("too few kinds")
