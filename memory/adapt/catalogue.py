"""Operators as a composer uses them: read from the judge's document, asked by rank. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Size = tuple[int, int]  # of one axis: in the small case, and in that of a GPU
Sizes = tuple[Size, ...]


class DoesNotFit(ValueError):
    """The operator does not take a tensor of these sizes."""


@dataclass(frozen=True)
class Form:
    """One way to use an operator on a tensor of `rank`. `out` says where each size of the result comes from."""

    rank: int
    arguments: Mapping[str, Any]
    out: tuple[Mapping[str, Any], ...]
    multiples: tuple[int, ...]
    nonnegative: bool = False  # so is its result
    keeps_positive: bool = False  # it changes no positive number
    centred: bool = False  # rows of its result have mean 0
    sums_to_one: bool = False
    overflows: bool = False  # on large inputs
    bounded: bool = False  # its result stays near zero on large inputs

    @property
    def wants_new(self) -> bool:
        """Whether a size of the result may be chosen."""
        return any("new" in rule for rule in self.out)

    def sizes(self, given: Sizes, new: Size) -> Sizes:
        """Sizes of the result. Raises DoesNotFit."""
        if len(given) != self.rank:
            raise DoesNotFit("another rank")
        for sizes, multiple in zip(given, self.multiples, strict=True):
            if any(size % multiple for size in sizes):
                raise DoesNotFit("a size is no multiple of what it must be")
        return tuple(_size(rule, given, new) for rule in self.out)


def _size(rule: Mapping[str, Any], given: Sizes, new: Size) -> Size:
    if "new" in rule:
        return new
    if "size" in rule:
        return (rule["size"], rule["size"])
    small, large = given[rule["axis"]]
    return (
        small * rule["mul"] // rule["div"] + rule["add"],
        large * rule["mul"] // rule["div"] + rule["add"],
    )


@dataclass(frozen=True)
class Operator:
    """One layer or function of torch. `kind` is layer, unary, binary or reduction."""

    name: str
    category: str
    kind: str
    forms: tuple[Form, ...]

    @property
    def plain(self) -> str:
        """ "nn.LayerNorm" -> "layernorm": how texts of problems are matched."""
        return plain_name(self.name)

    def at(self, rank: int) -> list[Form]:
        """How it may be used on a tensor of this rank."""
        return [form for form in self.forms if form.rank == rank]


@dataclass(frozen=True)
class Catalogue:
    """The usable operators of one version of torch, in order of their names."""

    torch: str
    operators: tuple[Operator, ...]

    def named(self, names: Iterable[str]) -> list[Operator]:
        """Those that a text calls by these names, in catalogue order."""
        wanted = {plain_name(name) for name in names}
        return [operator for operator in self.operators if operator.plain in wanted]

    def at(self, rank: int) -> list[Operator]:
        """Those that take a tensor of this rank."""
        return [operator for operator in self.operators if operator.at(rank)]


def plain_name(name: str) -> str:
    """Without room, underscores and case; a functional `layer_norm` is the layer LayerNorm."""
    return name.rpartition(".")[2].replace("_", "").lower()


def catalogue_of(document: Mapping[str, Any]) -> Catalogue:
    """The judge's document (judge.libraries.operators) as a value; what cannot be used is left out."""
    operators = [
        Operator(
            name=row["name"],
            category=row["category"],
            kind=row["kind"],
            forms=tuple(_form(form) for form in row["forms"]),
        )
        for row in document["operators"]
        if row["forms"]
    ]
    return Catalogue(document["torch"], tuple(sorted(operators, key=lambda one: one.name)))


def _form(row: Mapping[str, Any]) -> Form:
    return Form(**{**row, "out": tuple(row["out"]), "multiples": tuple(row["multiples"])})
