"""What the difference of a node shows: against what, how, and the addresses of every other way to look at it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from django.urls import reverse

from search.diffing.cached import diff
from search.diffing.view import DiffView, options_of, parameters
from search.records.models import Node, Run
from search.records.queries import RunTree

NAMES = ("parent", "best", "reference")  # bases that mean something in every search
CHOICES = {"base": NAMES, "view": ("split", "unified"), "ws": ("show", "ignore")}  # what is remembered
OTHER = re.compile(r"([0-9]{1,12})\.([0-9]{1,9})")


@dataclass(frozen=True)
class Base:
    """What a node is compared with. `query` names it for good: a node by its number, of another search by both."""

    name: str  # parent, best, reference, node
    label: str
    source: str
    query: str
    run_id: int
    number: int | None = None  # None: the reference
    note: str = ""  # why it is not what was asked for


@dataclass(frozen=True)
class Comparison:
    """A node against its base; `view` is None when there is nothing to compare."""

    base: Base
    view: DiffView | None
    itself: bool


def comparison(run: Run, tree: RunTree, node: Node, query: Mapping[str, str], memory: Mapping[str, str]) -> Comparison:
    """The difference that a query asks for; what it leaves open is as the reader had it last.

    `base` is parent, best, reference, a node number, or `search.node` of any other search.
    """
    asked = {name: query.get(name) or memory.get(name, "") for name in CHOICES}
    base = base_of(run, tree, node, asked["base"])
    itself = base.number == node.number and base.run_id == run.pk
    if itself or not node.source:
        return Comparison(base, None, itself)
    options = options_of({**query, **asked})
    found = diff(base.source, node.source, options)
    name = base.name if base.name in NAMES else base.query
    files = [(f"node {node.number}", reverse("kernel-download", args=[run.pk, node.number]))]
    if base.number is not None:
        files.insert(0, (base.label, reverse("kernel-download", args=[base.run_id, base.number])))
    view = DiffView(
        diff=found,
        old=base.label,
        new=f"node {node.number}",
        path=reverse("node-detail", args=[run.pk, node.number]),
        keep={"tab": "diff", "base": name, **parameters(options)},
        lasting={"base": base.query},
        downloads=tuple(files),
    )
    return Comparison(base, view, itself)


def remembered(query: Mapping[str, str], memory: Mapping[str, str]) -> dict[str, str]:
    """The choices to remember after this query: a node by its number belongs to one search and is not among them."""
    chosen = {name: query.get(name, "") for name, known in CHOICES.items() if query.get(name) in known}
    return {**memory, **chosen}


def base_of(run: Run, tree: RunTree, node: Node, wanted: str) -> Base:
    """What `wanted` means for this node. Where nothing is, the parent stands in, and it is said."""
    other = OTHER.fullmatch(wanted)
    if other:
        return _elsewhere(run, tree, node, int(other[1]), int(other[2]))
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 9 and tree.get(int(wanted)) is not None:
        return _of_node(run, "node", f"node {int(wanted)}", int(wanted))
    if wanted == "best" and tree.leader is not None:
        word = "closest to PyTorch" if tree.best is None else "best"
        return _of_node(run, "best", f"{word}, node {tree.leader}", tree.leader)
    if wanted == "reference":
        return _reference(run)
    note = ""
    if wanted == "best":
        note = "This search has no best yet."
    elif wanted and wanted != "parent":
        note = f"There is no node {wanted[:20]!r} in this search. Write a number, or search.node, such as 12.3."
    return _parent(run, tree, node, note)


def _elsewhere(run: Run, tree: RunTree, node: Node, run_id: int, number: int) -> Base:
    if run_id == run.pk and tree.get(number) is not None:
        return _of_node(run, "node", f"node {number}", number)
    found = Node.objects.filter(run_id=run_id, number=number).only("source", "run_id", "number").first()
    if found is None:
        return _parent(run, tree, node, f"There is no node {number} in a search {run_id}.")
    label = f"node {number} of search {run_id}"
    return Base("node", label, found.source, f"{run_id}.{number}", run_id, number)


def _parent(run: Run, tree: RunTree, node: Node, note: str) -> Base:
    """A parent without a source stands for the reference."""
    row = tree.get(node.number)
    parent = None if row is None or row.parent is None else tree.get(row.parent)
    if parent is None or not parent.source_hash:
        return _reference(run, note)
    return _of_node(run, "parent", f"parent, node {parent.number}", parent.number, note)


def _of_node(run: Run, name: str, label: str, number: int, note: str = "") -> Base:
    source = run.nodes.filter(number=number).values_list("source", flat=True).first() or ""
    return Base(name, label, source, str(number), run.pk, number, note)


def _reference(run: Run, note: str = "") -> Base:
    return Base("reference", "the reference", run.problem.source, "reference", run.pk, None, note)
