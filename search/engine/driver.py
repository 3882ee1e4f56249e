"""Runs a whole search in this process, one task after the other, with the services of the workers and no queue."""

from __future__ import annotations

import logging
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from django.utils import timezone

from judge.bench.runner import Bench
from judge.devices.models import Device
from memory.distil.distillers import InstalledNames, TableDistiller
from memory.distil.services import failure_learn
from search.engine.leases import lease_expired
from search.engine.steps import step_judge, step_propose, step_reserve
from search.proposers.protocol import Proposer
from search.records.models import Node, Run
from search.records.queue import FollowUp

LOOK_AGAIN_S = 2.0


@contextmanager
def alone() -> Iterator[None]:
    """While a command drives: SIGTERM acts like Ctrl-C, and the log does not say that no server receives hints."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    log = logging.getLogger("search.records.queue")
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
    first: Iterable[FollowUp] = (),
    elsewhere: Callable[[], Iterable[FollowUp]] = tuple,
) -> Run:
    """Work until the run has ended, is paused or its device or problem is quarantined; returns it as it stands then.

    `first` is done before anything else. Calls `report` after every task. Tasks that another process has taken are
    waited for, and taken back when their lease runs out. `elsewhere` is called while something is waited for: it
    exchanges jobs and outcomes with other machines, and returns what follows.
    """
    follow_ups = deque([*first, FollowUp("advance", run.pk)])
    while True:
        while follow_ups:
            follow_up = follow_ups.popleft()
            if follow_up.delay_s:
                report()
                sleep(follow_up.delay_s)
            follow_ups.extend(_do(follow_up, proposer_for, bench_for))
            report()
        run.refresh_from_db()
        if run.ended or run.state == Run.State.PAUSED:
            return run
        if run.device.state == Device.State.QUARANTINED or run.problem.quarantined:
            return run
        sleep(LOOK_AGAIN_S)
        follow_ups.extend(one for one in elsewhere() if one.task == "learn")  # other searches go on by themselves
        report()
        follow_ups.append(FollowUp("advance", run.pk))
        in_flight = Node.objects.filter(run=run, state__in=Node.IN_FLIGHT)
        follow_ups.extend(in_flight.reap(timezone.now(), lease_expired))


def _do(
    follow_up: FollowUp, proposer_for: Callable[[str], Proposer], bench_for: Callable[[Device], Bench]
) -> list[FollowUp]:
    if follow_up.task == "advance":
        return step_reserve(run_id=follow_up.target)
    if follow_up.task == "propose":
        return step_propose(node_id=follow_up.target, proposer_for=proposer_for)
    if follow_up.task == "learn":
        failure_learn(failure_id=follow_up.target, distiller=TableDistiller(InstalledNames()))
        return []
    return step_judge(node_id=follow_up.target, bench_for=bench_for)
