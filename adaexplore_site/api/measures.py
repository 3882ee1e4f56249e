"""A speedup as JSON, with how it was timed and whether it was audited."""

from __future__ import annotations

from collections.abc import Iterable

from adaexplore_site.api.shapes import Interval, MeasureOut
from judge.devices.models import Device
from judge.evaluations.measures import Measure
from judge.evaluations.models import Evaluation, Measurement
from judge.values import Basis, Subject


class Measures:
    """The speedups of these evaluations. Two queries, however many."""

    def __init__(self, evaluations: Iterable[Evaluation | None]) -> None:
        self.rows = {row.pk: row for row in evaluations if row is not None}
        subjects = Measurement.objects.filter(evaluation__in=self.rows, subject=Subject.CANDIDATE.value)
        self.methods = dict(subjects.values_list("evaluation", "method")) if self.rows else {}
        devices = {row.device_id for row in self.rows.values()}
        self.devices = dict(Device.objects.filter(pk__in=devices).values_list("pk", "name")) if devices else {}

    def of(self, evaluation: Evaluation | None) -> MeasureOut | None:
        """None without a speedup."""
        return None if evaluation is None else self.as_json(Measure.of(evaluation), evaluation)

    def by_id(self, pk: int | None) -> MeasureOut | None:
        """The same by the evaluation's number."""
        return self.of(self.rows.get(pk)) if pk is not None else None

    def as_json(self, measure: Measure | None, evaluation: Evaluation) -> MeasureOut | None:
        """A number that belongs to an evaluation."""
        if measure is None:
            return None
        low, high = measure.low, measure.high
        bounded = low is not None and high is not None and measure.basis is not Basis.REPORTED
        return MeasureOut(
            value=measure.value,
            n=measure.n,
            interval=Interval(low=low, high=high) if bounded else None,  # type: ignore[arg-type]  # both are there
            method=self.methods.get(evaluation.pk),
            device=self.devices[evaluation.device_id],
            basis=basis_word(measure.basis.value),
            audit="elsewhere" if evaluation.elsewhere else evaluation.audit or "none",
        )


def basis_word(basis: str) -> str:
    """As the pages say it: what no clock has timed stands in capitals."""
    return basis.upper() if basis in ("modelled", "simulated") else basis
