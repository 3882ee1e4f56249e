"""The stored rows that the pictures of a search are drawn from, each read once and only when a picture asks."""

from __future__ import annotations

from decimal import Decimal
from functools import cached_property

from django.utils.translation import ngettext

from judge.evaluations.measures import Measure, basis_word
from judge.evaluations.models import Measurement
from judge.values import Basis, Subject
from search.algorithm.ranking import rank, standing
from search.ledger.spending import NOTHING, Amount, calls_by_node
from search.records.facts import NodeRow, node_rows, winners_in
from search.records.models import Node, Run


class Book:
    """One search. Speedups of another basis than the device's are left out and counted: bases never mix."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.basis = run.device.basis or Basis.REPORTED
        self.imported = run.origin == Run.Origin.IMPORT

    @cached_property
    def rows(self) -> list[NodeRow]:
        """Every node in number order, the root first."""
        return node_rows(self.run.pk)

    @cached_property
    def told(self) -> list[NodeRow]:
        """The attempts in the order in which they ended."""
        ended = [row for row in self.rows if row.told_order is not None and row.kind != Node.Kind.ROOT]
        return sorted(ended, key=lambda row: row.told_order or 0)

    @cached_property
    def correct(self) -> list[NodeRow]:
        """Attempts with a speedup of this search's basis, the fastest first."""
        found = [row for row in self.told if self.timed(row)]
        return sorted(found, key=lambda row: rank(row.speedup, row.number), reverse=True)

    @cached_property
    def other_basis(self) -> int:
        """Attempts whose speedup is of another basis."""
        return sum(row.speedup is not None and row.basis != self.basis for row in self.told)

    @cached_property
    def won(self) -> set[int]:
        """Numbers of the nodes that beat PyTorch."""
        return winners_in(self.run.pk)

    @cached_property
    def leader(self) -> NodeRow | None:
        """The best kernel, else the one closest to PyTorch."""
        may = [row for row in self.correct if row.may_be_best]
        found = standing((row.speedup, row.number, row.number in self.won) for row in may)
        return next((row for row in may if row.number == found.leader), None)

    @property
    def best(self) -> NodeRow | None:
        """The best kernel; None where none beat PyTorch."""
        return self.leader if self.leader is not None and self.leader.number in self.won else None

    def timed(self, row: NodeRow) -> bool:
        """Whether the row has a speedup of this search's basis, with its evidence."""
        if row.speedup is None or row.basis != self.basis:
            return False
        return self.basis is Basis.REPORTED or (row.low is not None and row.high is not None)

    def speedup(self, row: NodeRow) -> Measure | None:
        """The row's speedup when it is of this search's basis."""
        return Measure.of(row) if self.timed(row) else None

    @cached_property
    def evaluations(self) -> dict[int, int]:
        """Node row id -> evaluation."""
        return dict(self.run.nodes.exclude(evaluation=None).values_list("pk", "evaluation"))

    @cached_property
    def calls(self) -> dict[int, Amount]:
        """Billed calls by node row id."""
        return calls_by_node(self.run.pk)

    @cached_property
    def device_ms(self) -> dict[int, float]:
        """Milliseconds of the device by node row id, for nodes judged here."""
        judged = self.run.nodes.filter(reused=False, evaluation__isnull=False)
        return {} if self.imported else dict(judged.values_list("pk", "evaluation__wall_ms"))

    @cached_property
    def baselines(self) -> dict[str, Measurement]:
        """Eager and torch.compile as timed beside the leading kernel."""
        if self.leader is None:
            return {}
        rows = Measurement.objects.filter(evaluation=self.evaluations[self.leader.id]).exclude(
            subject=Subject.CANDIDATE
        )
        return {row.subject: row for row in rows.filter(basis=self.basis.value)}

    def spent(self, row: NodeRow) -> tuple[int | None, Decimal | None]:
        """(tokens, dollars) of the row's billed calls; None for what is not wholly known."""
        calls = self.calls.get(row.id, NOTHING)
        return None if calls.untold else calls.tokens, None if calls.unpriced else calls.usd

    def left_out(self) -> tuple[str, ...]:
        """What no picture of speedups holds, in sentences."""
        if not self.other_basis:
            return ()
        text = ngettext(
            "%(count)d attempt with a speedup that is not %(basis)s is left out.",
            "%(count)d attempts with a speedup that is not %(basis)s are left out.",
            self.other_basis,
        )
        return (text % {"count": self.other_basis, "basis": basis_word(self.basis)},)
