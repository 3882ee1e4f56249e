"""What the node page shows, read from rows: relations in the tree, numbers, the exchange."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from judge.evaluations.measures import Measure
from judge.sources.highlighting import visible
from memory.prompting.assignment import CONTROL, NO_ROOM, TREATMENT, PromptRule, tokens_of
from memory.prompting.models import RunMemory
from memory.prompting.queries import memory_of, uses_at
from search.compare.columns import Key, key_of, no_node, node_of_search
from search.diffing.cached import diff
from search.diffing.view import DiffView, options_of, parameters
from search.engine.sketches import NEAR, jaccard, likely, shingles
from search.proposers import BY_HAND
from search.records.facts import NodeRow
from search.records.models import Node, Proposal, Run
from search.records.node_styles import LABELS
from search.records.queries import RunTree

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

TEXT_CHARS = 200_000  # of a prompt, reply or log shown on the page
ROWS = 200
ARMS = (
    (TREATMENT, _("In the prompt")),
    (CONTROL, _("Withheld at random")),
    (NO_ROOM, _("Left out: no room")),
)
NAMES = ("parent", "best", "reference")  # bases that mean something in every search
CHOICES = {"base": NAMES, "view": ("split", "unified"), "ws": ("show", "ignore")}  # what is remembered


@dataclass(frozen=True)
class NodeLink:
    """Another node as a link: number, status style and its label."""

    number: int
    style: str
    label: str
    speedup: Measure | None


@dataclass(frozen=True)
class Exchange:
    """One call of the proposer with its texts cut to a size a page can bear."""

    proposal: Proposal
    prompt: str
    reply: str
    error: str
    cut: bool


def node_style(node: NodeRow, run: Run, best: int | None) -> str:
    """Shape and colour of a node: `best` for the run's best."""
    return "best" if node.number == best else node.style(by_hand=run.proposer in BY_HAND)


def link(tree: RunTree, run: Run, number: int) -> NodeLink | None:
    """A link to a node of the tree; None when there is none of that number."""
    node = tree.get(number)
    if node is None:
        return None
    style = node_style(node, run, tree.best)
    return NodeLink(number, style, gettext("best") if style == "best" else str(LABELS[style]), Measure.of(node))


def links(tree: RunTree, run: Run, numbers: Iterable[int]) -> list[NodeLink]:
    """Links to those of these nodes that are in the tree."""
    return [found for number in numbers if (found := link(tree, run, number)) is not None]


def path_up(tree: RunTree, number: int) -> list[int]:
    """The node's number and those of its ancestors, up to the root."""
    path: list[int] = []
    node = tree.get(number)
    while node is not None:
        path.append(node.number)
        node = None if node.parent is None else tree.get(node.parent)
    return path


def best_child(tree: RunTree, run: Run, number: int) -> NodeLink | None:
    """The child on the way to the best node, else the fastest one, else the first; None without children."""
    below = [node for node in tree.nodes if node.parent == number]
    if not below:
        return None
    way = set() if tree.leader is None else set(path_up(tree, tree.leader))
    best = max(below, key=lambda node: (node.number in way, node.speedup or -1.0, -node.number))
    return link(tree, run, best.number)


def waits_for_person(node: Node) -> bool:
    """Whether a manual reply is expected."""
    return node.state == Node.State.PROPOSING and node.lease_owner == Node.PERSON


def waited_for(node: Node) -> tuple[Literal["reply", "outcome"] | None, str | None]:
    """(what the node waits for from outside, the prompt that a reply answers). At most one query; the device of its run
    is read."""
    if waits_for_person(node):
        return "reply", node.proposals.order_by("-attempt").values_list("prompt", flat=True).first()
    return ("outcome" if node.state == Node.State.JUDGING and node.run.device.remote else None), None


def exchanges(node: Node) -> list[Exchange]:
    """Every call of the proposer for this node, oldest first."""
    found = []
    for proposal in node.proposals.order_by("attempt"):
        texts = (proposal.prompt, proposal.reply, proposal.error)
        prompt, reply, error = (visible(text[:TEXT_CHARS]) for text in texts)
        found.append(Exchange(proposal, prompt, reply, error, cut=any(len(text) > TEXT_CHARS for text in texts)))
    return found


@dataclass(frozen=True)
class Near:
    """An earlier node with much the same kernel. `share` is 0.95..1; `equal` when only layout and comments differ."""

    number: int
    share: float
    equal: bool = False

    @property
    def percent(self) -> int:
        """The share for people, rounded down."""
        return int(self.share * 100)


def near_of(node: Node) -> Near | None:
    """The first equal node of the run, else the nearest with a share of 0.95 or more. At most three queries."""
    if not node.source_hash:
        return None
    earlier = Node.objects.filter(run_id=node.run_id, number__lt=node.number).exclude(source_hash="").order_by("number")
    equal = earlier.filter(source_hash=node.source_hash).values_list("number", flat=True).first()
    if equal is not None:
        return Near(equal, 1.0, equal=True)
    rows = list(earlier.values_list("number", "sketch"))
    numbers = [rows[place][0] for place in likely(bytes(node.sketch), [bytes(row[1]) for row in rows])]
    sources = dict(earlier.filter(number__in=numbers).values_list("number", "source")) if numbers else {}
    mine = shingles(node.source) if sources else frozenset()
    shares = [(jaccard(mine, shingles(sources[number])), -number) for number in numbers]
    share, number = max(shares, default=(0.0, 0))
    return Near(-number, share) if share >= NEAR else None


@dataclass(frozen=True)
class RulesPanel:
    """How a search uses memory. `settings` are those of elsewhere for an imported one."""

    memory: RunMemory
    settings: dict[str, Any]
    rules: tuple[PromptRule, ...]
    tokens: int  # of all rules together, estimated
    elsewhere: bool

    @property
    def withheld_percent(self) -> float:
        return 100 * float(self.settings["withhold"])


def rules_panel(run: Run) -> RulesPanel | None:
    """None for a search of a time before memory. Two queries."""
    memory, rules = memory_of(run.pk)
    if memory is None:
        return None
    names = ("uses", "learns", "trust", "threshold", "budget_tokens", "withhold")
    here = {name: getattr(memory, name) for name in names}
    return RulesPanel(
        memory=memory,
        settings=memory.elsewhere.get("settings", here),
        rules=rules,
        tokens=tokens_of(rules),
        elsewhere=bool(memory.elsewhere),
    )


def prompt_rules(node: Node) -> list[tuple[str, StrOrPromise, list[PromptRule]]]:
    """(arm, title, rules) of a node's prompt, empty arms left out. One query, two for an imported search."""
    found = uses_at(node.pk, node.run_id, node.number)
    groups = [(arm, title, [use for use in found if use.arm == arm]) for arm, title in ARMS]
    return [group for group in groups if group[2]]


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
    files = [(_node_text(node.number), reverse("kernel-download", args=[run.pk, node.number]))]
    if base.number is not None:
        files.insert(0, (base.label, reverse("kernel-download", args=[base.run_id, base.number])))
    view = DiffView(
        diff=found,
        old=base.label,
        new=_node_text(node.number),
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


def _node_text(number: int) -> str:
    return gettext("node %(number)d") % {"number": number}


def base_of(run: Run, tree: RunTree, node: Node, wanted: str) -> Base:
    """What `wanted` means for this node. Where nothing is, the parent stands in, and it is said."""
    other = key_of(wanted)
    if other is not None and other.run_id != run.pk:
        return _elsewhere(run, tree, node, other)
    number = str(other.number) if other else wanted
    if number.isascii() and number.isdigit() and len(number) < 9 and tree.get(int(number)) is not None:
        return _of_node(run, "node", _node_text(int(number)), int(number))
    if wanted == "best" and tree.leader is not None:
        text = gettext("closest to PyTorch, node %(number)d") if tree.best is None else gettext("best, node %(number)d")
        return _of_node(run, "best", text % {"number": tree.leader}, tree.leader)
    if wanted == "reference":
        return _reference(run)
    note = ""
    if wanted == "best":
        note = gettext("This search has no best yet.")
    elif wanted and wanted != "parent":
        note = gettext("There is no node %(wanted)r in this search. Write a number, or search.node, such as 12.3.") % {
            "wanted": wanted[:20]
        }
    return _parent(run, tree, node, note)


def _elsewhere(run: Run, tree: RunTree, node: Node, key: Key) -> Base:
    found = Node.objects.filter(run_id=key.run_id, number=key.number).only("source", "run_id", "number").first()
    if found is None:
        return _parent(run, tree, node, no_node(key))
    return Base("node", node_of_search(key), found.source, str(key), key.run_id, key.number)


def _parent(run: Run, tree: RunTree, node: Node, note: str) -> Base:
    """A parent without a source stands for the reference."""
    row = tree.get(node.number)
    parent = None if row is None or row.parent is None else tree.get(row.parent)
    if parent is None or not parent.source_hash:
        return _reference(run, note)
    return _of_node(run, "parent", gettext("parent, node %(number)d") % {"number": parent.number}, parent.number, note)


def _of_node(run: Run, name: str, label: str, number: int, note: str = "") -> Base:
    source = run.nodes.filter(number=number).values_list("source", flat=True).first() or ""
    return Base(name, label, source, str(number), run.pk, number, note)


def _reference(run: Run, note: str = "") -> Base:
    return Base("reference", gettext("the reference"), run.problem.source, "reference", run.pk, None, note)
