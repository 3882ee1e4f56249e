"""What the node page shows, read from rows: relations in the tree, numbers, the exchange."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from judge.evaluations.measures import Measure
from judge.sources.highlighting import visible
from search.records.models import Node, Proposal, Run
from search.records.node_styles import LABELS, style_of
from search.records.queries import RunTree, TreeNode

TEXT_CHARS = 200_000  # of a prompt, reply or log shown on the page
ROWS = 200


@dataclass(frozen=True)
class NodeLink:
    """Another node as a link: number, shape and word."""

    number: int
    look: str
    word: str
    speedup: Measure | None


@dataclass(frozen=True)
class Exchange:
    """One call of the proposer with its texts cut to a size a page can bear."""

    proposal: Proposal
    prompt: str
    reply: str
    error: str
    cut: bool


def node_look(node: TreeNode, run: Run, best: int | None) -> str:
    """Shape and colour of a node: `best` for the run's best."""
    if node.number == best:
        return "best"
    return style_of(
        kind=node.kind,
        state=node.state,
        verdict=node.verdict or None,
        speedup=node.speedup,
        by_hand=run.proposer == "manual",
        doubt=node.doubt,
    )


def link(tree: RunTree, run: Run, number: int) -> NodeLink | None:
    """A link to a node of the tree; None when there is none of that number."""
    node = tree.get(number)
    if node is None:
        return None
    look = node_look(node, run, tree.best)
    return NodeLink(number, look, "best" if look == "best" else LABELS[look], Measure.of(node))


def lineage(tree: RunTree, run: Run, number: int) -> list[NodeLink]:
    """From the root to the node's parent."""
    path: list[NodeLink] = []
    node = tree.get(number)
    while node is not None and node.parent is not None:
        found = link(tree, run, node.parent)
        if found is not None:
            path.append(found)
        node = tree.get(node.parent)
    return path[::-1]


def path_up(tree: RunTree, number: int) -> list[int]:
    """The node's number and those of its ancestors, up to the root."""
    path: list[int] = []
    node = tree.get(number)
    while node is not None:
        path.append(node.number)
        node = None if node.parent is None else tree.get(node.parent)
    return path


def children(tree: RunTree, run: Run, number: int) -> list[NodeLink]:
    """The node's children by number."""
    found = [link(tree, run, node.number) for node in tree.nodes if node.parent == number]
    return [item for item in found if item is not None]


def best_child(tree: RunTree, run: Run, number: int) -> NodeLink | None:
    """The child on the way to the best node, else the fastest one, else the first; None without children."""
    below = [node for node in tree.nodes if node.parent == number]
    if not below:
        return None
    way = set() if tree.leader is None else set(path_up(tree, tree.leader))
    best = max(below, key=lambda node: (node.number in way, node.speedup or -1.0, -node.number))
    return link(tree, run, best.number)


def waits_for_person(node: Node) -> bool:
    """Whether a reply by hand is expected."""
    return node.state == Node.State.PROPOSING and node.lease_owner == Node.PERSON


def age_s(node: Node, *, now: datetime) -> float | None:
    """Seconds in flight; None once it has ended."""
    return (now - node.created_at).total_seconds() if node.state in Node.IN_FLIGHT else None


def exchanges(node: Node) -> list[Exchange]:
    """Every call of the proposer for this node, oldest first."""
    found = []
    for proposal in node.proposals.order_by("attempt"):
        texts = (proposal.prompt, proposal.reply, proposal.error)
        prompt, reply, error = (visible(text[:TEXT_CHARS]) for text in texts)
        found.append(Exchange(proposal, prompt, reply, error, cut=any(len(text) > TEXT_CHARS for text in texts)))
    return found
