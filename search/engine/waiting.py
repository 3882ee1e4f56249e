"""What waits for outcomes from other machines: how many kernels, since when, and the commands that carry them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min

from judge.batch.models import BatchJob
from judge.devices.carrying import carried_by_itself, carry_commands
from judge.devices.models import Device
from search.records.models import Node, Run


@dataclass(frozen=True)
class Carrying:
    """Kernels of one search that wait for an outcome from the machine of its device, the oldest since `since`.
    `refusal`: why the last one that came back was refused.
    """

    run_id: int
    device: Device
    jobs: int
    since: datetime
    refusal: str = ""

    @property
    def by_itself(self) -> bool:
        return carried_by_itself()

    @property
    def commands(self) -> tuple[str, ...]:
        return carry_commands(self.device, f"--run {self.run_id}")


def carrying(runs: Iterable[Run]) -> dict[int, Carrying]:
    """By search what it waits for; those that have ended, are on a device of this machine or wait for nothing are
    missing. At most two queries. The device of each run is read.
    """
    remote = {run.pk: run for run in runs if run.device.remote and not run.ended}
    if not remote:
        return {}
    nodes = Node.objects.filter(run__in=remote, state=Node.State.JUDGING).order_by()
    groups = list(nodes.values_list("run").annotate(Count("pk"), Min("created_at")))
    refusals = _refusals([remote[run_id] for run_id, *_ in groups]) if groups else {}
    return {
        pk: Carrying(pk, run.device, count, since, refusals.get((run.device_id, run.problem_id), ""))
        for pk, count, since in groups
        for run in (remote[pk],)
    }


def _refusals(runs: list[Run]) -> dict[tuple[int, int], str]:
    """By device and problem why the newest job there that was refused has no outcome."""
    jobs = BatchJob.objects.filter(device__in={run.device_id for run in runs}, imported_at=None).exclude(refusal="")
    rows = jobs.filter(problem__in={run.problem_id for run in runs}).order_by("pk")
    return {(device, problem): text for device, problem, text in rows.values_list("device", "problem", "refusal")}
