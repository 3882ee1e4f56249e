"""Runs a whole search in this process, hop by hop, with the services the workers use and no queue."""

from __future__ import annotations

import logging
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from django.utils import timezone

from judge.bench.runner import Bench
from judge.devices.models import Device
from memory.distil.services import failure_learn
from memory.distil.table import InstalledNames, TableDistiller
from search.engine.faults import lease_expired
from search.engine.steps import step_judge, step_propose, step_reserve
from search.proposers.protocol import Proposer
from search.records.follow_ups import Hop
from search.records.models import Node, Run

LOOK_AGAIN_S = 2.0


@contextmanager
def alone() -> Iterator[None]:
    """While a command drives: SIGTERM acts like Ctrl-C, and nobody is told that no server waits for hints."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    log = logging.getLogger("search.records.hints")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        log.setLevel(level)


def drive(
    *,
    run: Run,
    proposer_for: Callable[[str], Proposer],
    bench_for: Callable[[Device], Bench],
    sleep: Callable[[float], None],
    report: Callable[[], None],
    first: Iterable[Hop] = (),
) -> Run:
    """Work until the run has ended, is paused or its device is quarantined; returns it as it stands then.

    `first` is done before anything else. Calls `report` after every hop. Hops that another process has taken are waited
    for, and taken back when their lease runs out.
    """
    hops = deque([*first, Hop("advance", run.pk)])
    while True:
        while hops:
            hop = hops.popleft()
            if hop.delay_s:
                report()
                sleep(hop.delay_s)
            hops.extend(_do(hop, proposer_for, bench_for))
            report()
        run.refresh_from_db()
        if run.ended or run.state == Run.State.PAUSED or run.device.state == Device.State.QUARANTINED:
            return run
        sleep(LOOK_AGAIN_S)
        hops.append(Hop("advance", run.pk))
        now = timezone.now()
        for node in Node.objects.filter(run=run, state__in=Node.IN_FLIGHT, lease_until__lt=now):
            hops.extend(lease_expired(node_id=node.pk, now=now))


def _do(hop: Hop, proposer_for: Callable[[str], Proposer], bench_for: Callable[[Device], Bench]) -> list[Hop]:
    if hop.task == "advance":
        return step_reserve(run_id=hop.target)
    if hop.task == "propose":
        return step_propose(node_id=hop.target, proposer_for=proposer_for)
    if hop.task == "learn":
        failure_learn(failure_id=hop.target, distiller=TableDistiller(InstalledNames()))
        return []
    return step_judge(node_id=hop.target, bench_for=bench_for)
