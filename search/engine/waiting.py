"""What waits for outcomes from other machines: how many kernels, since when, and the commands that carry them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min

from judge.devices.carrying import carried_by_itself, carry_commands
from judge.devices.models import Device
from search.records.models import Node, Run


@dataclass(frozen=True)
class Carrying:
    """Kernels of one search that wait for an outcome from the machine of its device, the oldest since `since`."""

    run_id: int
    device: Device
    jobs: int
    since: datetime

    @property
    def by_itself(self) -> bool:
        return carried_by_itself()

    @property
    def commands(self) -> tuple[str, ...]:
        return carry_commands(self.device, f"--run {self.run_id}")


def carrying(runs: Iterable[Run]) -> dict[int, Carrying]:
    """By search what it waits for; those that have ended, are on a device of this machine or wait for nothing are
    missing. At most one query. The device of each run is read.
    """
    remote = {run.pk: run.device for run in runs if run.device.remote and not run.ended}
    if not remote:
        return {}
    nodes = Node.objects.filter(run__in=remote, state=Node.State.JUDGING).order_by()
    groups = nodes.values_list("run").annotate(Count("pk"), Min("created_at"))
    return {run_id: Carrying(run_id, remote[run_id], count, since) for run_id, count, since in groups}
