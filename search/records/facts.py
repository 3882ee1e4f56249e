"""Node rows as facts: what the algorithm replays, the grid cell of a kernel, and which kernels beat PyTorch."""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from judge.evaluations.beside import FIGURE, beating, beats_torch, won
from judge.evaluations.measures import verdict_look
from judge.evaluations.models import MAY_BE_BEST, Evaluation, may_be_best
from judge.values import Verdict
from judge.values.parsing import parse_module
from memory.patterns.fingerprints import fingerprint
from search.algorithm.params import SearchParams
from search.algorithm.ranking import Standing, reward, standing
from search.algorithm.tree import Fact, Tree
from search.records.events import NodeBest
from search.records.models import Node, RunEvent

UNREADABLE = "unreadable"
_LAUNCHES = ((1, "1"), (2, "2"), (4, "3-4"))  # up to so many: the bucket
LAUNCHES = ("0", *(name for _, name in _LAUNCHES), "5+")  # every bucket, in order
_PATTERNS = (  # the first that is met names the pattern
    ("dot", frozenset({"dot", "dot_scaled"})),
    ("scan", frozenset({"associative_scan", "cumsum", "cumprod", "sort"})),
    ("reduction", frozenset({"sum", "max", "min", "reduce", "argmax", "argmin", "softmax", "xor_sum"})),
)
PATTERNS = (*(name for name, _ in _PATTERNS), "elementwise", "torch")  # in order, without "+atomic"


def cell_of(source: str) -> str:
    """`launches:pattern`, such as `1:reduction` or `3-4:dot+atomic`. Without a Triton kernel the pattern is `torch`.

    Launches are call sites of the form `kernel[grid](...)`; a loop around one counts once. Never runs the source.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a candidate's text, e.g. of its escapes
            module = parse_module(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return UNREADABLE
    kernels = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and _is_kernel(node)]
    launches = sum(isinstance(call.func, ast.Subscript) for call in _calls(module))
    bucket = next((name for most, name in _LAUNCHES if launches <= most), "5+") if launches else "0"
    used = {name for kernel in kernels for name in _language_calls(kernel)}
    return f"{bucket}:{_pattern(used) if kernels else 'torch'}"


def _pattern(used: set[str]) -> str:
    named = next((word for word, names in _PATTERNS if used & names), "elementwise")
    return f"{named}+atomic" if any(name.startswith("atomic_") for name in used) else named


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(decorator).split("(")[0].split(".") for decorator in function.decorator_list)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _language_calls(kernel: ast.FunctionDef) -> Iterator[str]:
    """Names called on `tl` or the like: `tl.dot` gives dot."""
    for call in _calls(kernel):
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            yield call.func.attr


LOST_ATTEMPTS = "lost.attempts"
_CELLS: dict[str, str] = {}  # by source hash


class NodeRow(NamedTuple):
    """One node with the verdict it took, as read by `node_rows`; `parent` is a number.

    The statistics are those of `search.records.queries.run_tree`, 0 elsewhere: `best_reward` and `total` are rewards
    over the subtree, `reward` its own, as the run counts them.
    """

    id: int
    number: int
    parent: int | None
    kind: str
    state: str
    told_order: int | None
    source_hash: str
    summary: str
    own_reason: str
    reused: bool
    touched: bool
    context: list[int]
    created_at: datetime
    told_at: datetime | None
    evaluation_verdict: str | None
    evaluation_stage: str | None
    evaluation_reason: str | None
    loads: bool | None
    speedup: float | None
    low: float | None
    high: float | None
    n: int | None
    basis: str | None
    audit: str | None
    doubt: str | None
    over_shipped: float | None
    over_fastest: float | None
    fastest: str | None
    shipped_interval: list[Any] | None
    fastest_interval: list[Any] | None
    depth: int = 0
    visits: int = 0
    pending: int = 0
    total: float = 0.0
    best_reward: float = 0.0
    reward: float = 0.0

    @property
    def may_be_best(self) -> bool:
        """Completed, not in doubt, with a speedup that was audited here or reported."""
        known = self.told_order is not None and self.speedup is not None
        return known and may_be_best(self.audit, self.basis, self.doubt)

    @property
    def verdict(self) -> str:
        """Empty until it is completed."""
        return "" if self.told_order is None else verdict_of(self.evaluation_verdict, self.kind, self.own_reason)

    @property
    def stage(self) -> str:
        return self.evaluation_stage or ("proposal" if self.own_reason else "")

    @property
    def reason(self) -> str:
        return self.evaluation_reason or self.own_reason

    @property
    def paper_reward(self) -> float:
        """The publication's: 0 for a node without an evaluation; else by its verdict and speedup."""
        return reward(loads=bool(self.loads), correct=self.passed, speedup=self.speedup)

    @property
    def passed(self) -> bool:
        return self.evaluation_verdict == Verdict.PASS

    def style(self, *, by_hand: bool = False) -> str:
        """One of `STYLES`. A completed node without a verdict ended without a candidate and counts as failed."""
        if self.doubt:
            return "suspect"
        if self.kind == Node.Kind.ROOT:
            return "root"
        if self.state == Node.State.PROPOSING:
            return "waiting" if by_hand else "proposing"
        if self.state == Node.State.COMPLETED:
            return verdict_look(self.verdict, self.speedup)
        return str(self.state)

    def as_seen(self, params: SearchParams) -> NodeRow:
        """The row as a run with these parameters decides on it: one in doubt counts as suspect, which is no pass."""
        if not self.doubt or not params.folds_marks or not self.passed:
            return self
        return self._replace(evaluation_verdict=Verdict.SUSPECT.value, speedup=None)


_NODE = (
    "number parent__number kind state told_order source_hash summary reason reused touched context created_at told_at"
)
_EVALUATION = (
    "verdict stage reason loads speedup speedup_low speedup_high speedup_n basis audit doubt over_shipped over_fastest "
    "fastest shipped_interval fastest_interval"
)
_COLUMNS = ("id", *_NODE.split(), *(f"evaluation__{name}" for name in _EVALUATION.split()))


def verdict_of(evaluation_verdict: str | None, kind: str, reason: str) -> str:
    """Verdict of a completed node. Without an evaluation: lost when given up, bad_source when no new kernel came."""
    if evaluation_verdict is not None:
        return evaluation_verdict
    if kind == Node.Kind.ROOT:
        return ""
    return Verdict.LOST.value if reason == LOST_ATTEMPTS else Verdict.BAD_SOURCE.value


def node_rows(run_id: int, numbers: Iterable[int] | None = None) -> list[NodeRow]:
    """The nodes of a run (those named; all when None) in number order, cancelled ones included. One query."""
    rows = Node.objects.filter(run_id=run_id).order_by("number")
    if numbers is not None:
        rows = rows.filter(number__in=set(numbers))
    return [NodeRow(*row) for row in rows.values_list(*_COLUMNS)]


def tree_of(rows: list[NodeRow], params: SearchParams) -> Tree:
    """The replayed tree, with the rewards of `params`. Cancelled nodes leave no trace; nodes in flight are pending."""
    rows = [row.as_seen(params) for row in rows]
    cells = cells_of(rows) if params.policy == "map_elites" else {}
    facts = (
        Fact(
            number=row.number,
            parent=row.parent,
            kind=row.kind,
            told=row.told_order,
            reward=row.paper_reward,
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
        row.paper_reward,
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


def nothing_faster(*, ended: bool) -> str:
    """What is said of a search whose correct kernels beat nothing."""
    return _("Nothing faster than PyTorch was found") if ended else _("Nothing faster than PyTorch yet")


def has_won(evaluation: Evaluation | None) -> bool:
    """Whether this verdict may be a best and beats every baseline it was timed beside. Reads its report."""
    return evaluation is not None and evaluation.may_be_best and beats_torch(evaluation)


def won_of(evaluations: Collection[int]) -> set[int]:
    """Those of these evaluations that may be a best and beat PyTorch. One query."""
    return beating(Evaluation.objects.filter(MAY_BE_BEST, pk__in=evaluations)) if evaluations else set()


def winners_in(run_id: int, numbers: Iterable[int] | None = None) -> set[int]:
    """Numbers of a run's nodes (those named; all when None) whose kernels have won. One query."""
    rows = _bests(run_id).filter(evaluation__speedup__gt=1)
    if numbers is not None:
        rows = rows.filter(number__in=set(numbers))
    return {number for _, number, beat in _candidates(rows) if beat}


def standing_of(run_id: int, *, unassisted: bool = False) -> Standing:
    """The run's best kernel, else the one closest to PyTorch. With `unassisted` of those no person had a hand in."""
    rows = _bests(run_id)
    return standing(_candidates(rows.filter(touched=False) if unassisted else rows))


def standings_logged(run_ids: Collection[int]) -> tuple[dict[int, Standing], dict[int, list[NodeBest]]]:
    """(standing, its bests in order) per run that ever had one: the same as `standing_of` for many runs at
    once. Two queries. A kernel that is not believed any more is passed over."""
    logged: dict[int, list[NodeBest]] = defaultdict(list)
    events = RunEvent.objects.filter(run__in=run_ids).of(NodeBest).order_by("run", "seq")
    for run_id, payload in events.values_list("run", "payload"):
        logged[run_id].append(NodeBest.read(payload))
    wanted = {best.evaluation for bests in logged.values() for best in bests}
    rows = Evaluation.objects.filter(MAY_BE_BEST, pk__in=wanted).values_list("pk", *FIGURE) if wanted else ()
    beat = {pk: won(*row) for pk, *row in rows}
    found = {
        run_id: standing(
            (best.speedup, best.number, beat[best.evaluation]) for best in bests if best.evaluation in beat
        )
        for run_id, bests in logged.items()
    }
    return found, logged


def _candidates(rows: QuerySet[Node]) -> list[tuple[float | None, int, bool]]:
    """As `standing` takes them."""
    found = rows.values_list("number", *(f"evaluation__{name}" for name in FIGURE))
    return [(row[0], number, won(*row)) for number, *row in found]


def _bests(run_id: int) -> QuerySet[Node]:
    """Completed nodes that may be a best."""
    passed = Node.objects.filter(run_id=run_id, state=Node.State.COMPLETED, evaluation__verdict=Verdict.PASS.value)
    return passed.filter(evaluation__in=Evaluation.objects.filter(MAY_BE_BEST, speedup__isnull=False))
