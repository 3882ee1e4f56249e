"""Turns node rows into the facts the algorithm replays: one query per run, sources left in the database."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from judge.evaluations.models import Evaluation, may_be_best
from judge.values import Verdict
from memory.patterns.fingerprints import fingerprint
from search.algorithm.params import SearchParams
from search.algorithm.reward import reward
from search.algorithm.tree import Fact, Tree
from search.records.kernel_cells import cell_of
from search.records.models import Node

LOST_ATTEMPTS = "lost.attempts"
_CELLS: dict[str, str] = {}  # by source hash


class NodeRow(NamedTuple):
    """One node with the verdict it took, as read by `node_rows`; `parent` is a row id."""

    id: int
    number: int
    parent: int | None
    kind: str
    state: str
    told_order: int | None
    source_hash: str
    summary: str
    reason: str
    reused: bool
    touched: bool
    created_at: datetime
    told_at: datetime | None
    evaluation_verdict: str | None
    stage: str | None
    evaluation_reason: str | None
    loads: bool | None
    speedup: float | None
    low: float | None
    high: float | None
    n: int | None
    basis: str | None
    audit: str | None
    doubt: str | None

    @property
    def may_be_best(self) -> bool:
        """Told, not in doubt, with a speedup that was audited here or reported by somebody else."""
        known = self.told_order is not None and self.speedup is not None
        return known and may_be_best(self.audit, self.basis, self.doubt)

    @property
    def verdict(self) -> str:
        return "" if self.told_order is None else verdict_of(self.evaluation_verdict, self.kind, self.reason)

    @property
    def reward(self) -> float:
        """The publication's: 0 for a node without an evaluation; else by its verdict and speedup."""
        return reward(loads=bool(self.loads), correct=self.passed, speedup=self.speedup)

    @property
    def passed(self) -> bool:
        return self.evaluation_verdict == Verdict.PASS

    def as_seen(self, params: SearchParams) -> NodeRow:
        """The row as a run with these parameters decides on it: one in doubt counts as suspect, which is no pass."""
        if not self.doubt or not params.folds_marks or not self.passed:
            return self
        return self._replace(evaluation_verdict=Verdict.SUSPECT.value, speedup=None)


_EVALUATION = (
    "verdict",
    "stage",
    "reason",
    "loads",
    "speedup",
    "speedup_low",
    "speedup_high",
    "speedup_n",
    "basis",
    "audit",
    "doubt",
)
_COLUMNS = (
    "id",
    "number",
    "parent_id",
    "kind",
    "state",
    "told_order",
    "source_hash",
    "summary",
    "reason",
    "reused",
    "touched",
    "created_at",
    "told_at",
    *(f"evaluation__{name}" for name in _EVALUATION),
)


def verdict_of(evaluation_verdict: str | None, kind: str, reason: str) -> str:
    """Verdict of a told node. Without an evaluation: lost when given up, bad_source when no new kernel came."""
    if evaluation_verdict is not None:
        return evaluation_verdict
    if kind == Node.Kind.ROOT:
        return ""
    return Verdict.LOST.value if reason == LOST_ATTEMPTS else Verdict.BAD_SOURCE.value


def node_rows(run_id: int) -> list[NodeRow]:
    """All nodes of a run in number order, cancelled ones included. One query."""
    return [NodeRow(*row) for row in Node.objects.filter(run_id=run_id).order_by("number").values_list(*_COLUMNS)]


def tree_of(rows: list[NodeRow], params: SearchParams) -> Tree:
    """The replayed tree, with the rewards of `params`. Cancelled nodes leave no trace; nodes in flight are pending."""
    rows = [row.as_seen(params) for row in rows]
    numbers = {row.id: row.number for row in rows}
    cells = cells_of(rows) if params.policy == "map_elites" else {}
    facts = (
        Fact(
            number=row.number,
            parent=None if row.parent is None else numbers[row.parent],
            kind=row.kind,
            told=row.told_order,
            reward=row.reward,
            speedup=_speedup(row),
            written=bool(row.source_hash),
            cell=cells.get(row.id, ""),
        )
        for row in rows
        if row.state != Node.State.CANCELLED
    )
    return Tree.replay(facts, log=params.log)


def row_tell(tree: Tree, row: NodeRow, params: SearchParams) -> None:
    """Tell a node of `tree_of`'s tree what its row says: the same tree as replayed with it, without replaying."""
    row = row.as_seen(params)
    cells = cells_of([row]) if params.policy == "map_elites" else {}
    tree.tell(
        row.number,
        row.reward,
        speedup=_speedup(row),
        written=bool(row.source_hash),
        cell=cells.get(row.id, ""),
    )


def _speedup(row: NodeRow) -> float | None:
    return (row.speedup or 0.0) if row.passed else None


def cells_of(rows: list[NodeRow]) -> dict[int, str]:
    """Cell by row id of the correct nodes. Sources are read once per process and candidate: a cell is a few letters."""
    correct = [row for row in rows if row.passed]
    new = {row.source_hash: row.id for row in correct if row.source_hash not in _CELLS}
    if new:
        found = Node.objects.filter(pk__in=new.values()).values_list("source_hash", "source")
        _CELLS.update((source_hash, cell_of(source)) for source_hash, source in found)
    return {row.id: _CELLS[row.source_hash] for row in correct}


def fingerprint_of(evaluation: Evaluation | None, reason: str, message: str) -> str:
    """Key of the cluster of failures that this ending falls into; empty for a pass."""
    if evaluation is None:
        return fingerprint("proposal", reason or verdict_of(None, "", reason), message).key
    if evaluation.verdict == Verdict.PASS:
        return ""
    return fingerprint(evaluation.stage, evaluation.reason or evaluation.verdict, evaluation.message).key
