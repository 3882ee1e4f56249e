"""The self-test of one device: queued, run entry by entry, stored whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from adaexplore_site.core.audit import ActionRefused, action_on
from adaexplore_site.core.text import storable, storable_text
from judge.bench.runner import Bench
from judge.bench.sandboxing.minimum import required_layers
from judge.devices.models import Device
from judge.selftest.entries import Entry
from judge.selftest.models import SelfTest
from judge.selftest.results import EntryResult, Report
from judge.selftest.run import Open, Progress, bench_kind, run_entries
from judge.values import JudgeError

STOP = "selftest.stop"
WORKERS = min(2, os.cpu_count() or 1)  # entries at a time: more wait for each other, and for contexts in the making
GONE_AFTER_S = 3600  # a self-test that has not ended by then has lost its worker


def selftest_queue(*, device: Device, user: Any = None, key: str | None = None) -> SelfTest | None:
    """A new row that waits for the device's worker. None when one is on its way already."""
    old = timezone.now() - timedelta(seconds=GONE_AFTER_S)
    unfinished = [SelfTest.State.QUEUED, SelfTest.State.RUNNING]
    SelfTest.objects.filter(device=device, state__in=unfinished, queued_at__lt=old).update(
        state=SelfTest.State.FAILED, message="The worker ended before the self-test finished."
    )
    try:
        with transaction.atomic():
            person = user if getattr(user, "pk", None) else None
            row = SelfTest.objects.create(device=device, started_by=person)
            if person is not None:
                action_on(
                    verb="selftest.start", on=("selftest", row.pk), user=person, key=key, after={"device": device.name}
                )
            return row
    except IntegrityError:
        return None


def selftest_run(
    *,
    selftest: SelfTest,
    found: Sequence[Entry],
    open_bench: Open | None = None,
    workers: int = 0,
    progress: Progress | None = None,
    budget_s: float | None = None,
) -> Report | None:
    """Judge every entry and store the result. A row that is no longer queued is left alone: None. One that a person
    stops ends as that person left it.

    Raises JudgeError when no bench can start; the row then has state "failed" and the message.
    """
    device = selftest.device
    mine = SelfTest.objects.filter(pk=selftest.pk)
    total = sum(bench_kind(entry, device.name) is not None for entry in found)
    taken = mine.filter(state=SelfTest.State.QUEUED).update(
        state=SelfTest.State.RUNNING, started_at=timezone.now(), total=total
    )
    if not taken:
        return None
    running = mine.filter(state=SelfTest.State.RUNNING)
    done = 0

    def completed(row: EntryResult) -> None:
        nonlocal done
        done += 1
        mine.update(done=done)
        if progress is not None:
            progress(row)

    try:
        report = run_entries(
            found,
            device.name,
            open_bench or bench_opener(device),
            workers=workers or WORKERS,
            progress=completed,
            budget_s=budget_s,
            unwanted=lambda: not running.exists(),
        )
    except JudgeError as error:
        running.update(state=SelfTest.State.FAILED, finished_at=timezone.now(), message=storable_text(str(error)))
        raise
    if report.left:
        message = f"stopped with {report.left} of {total} entries left"
        running.update(state=SelfTest.State.FAILED, finished_at=timezone.now(), message=message)
        return report
    running.update(
        state=SelfTest.State.FINISHED,
        finished_at=timezone.now(),
        protocol=report.protocol,
        toolchain=report.toolchain[:120],
        red=report.red,
        result=storable(report.to_json()),
    )
    return report


def selftest_stop(*, device: Device, user: Any, key: str | None = None) -> None:
    """Stop the self-test that waits for the device's worker or runs there. Raises ActionRefused."""
    with transaction.atomic():
        under_way = [SelfTest.State.QUEUED, SelfTest.State.RUNNING]
        row = SelfTest.objects.select_for_update().filter(device=device, state__in=under_way).first()
        if row is None:
            raise ActionRefused(_("No self-test of %(device)s waits or runs.") % {"device": device.name})
        before = {"state": row.state}
        row.state, row.finished_at = SelfTest.State.FAILED, timezone.now()
        row.message = f"Stopped by {user.get_username()}."
        row.save(update_fields=["state", "finished_at", "message"])
        after = {"device": device.name, "state": row.state}
        action_on(verb=STOP, on=("selftest", row.pk), user=user, key=key, before=before, after=after)


def bench_opener(device: Device) -> Open:
    """Opens benches as `device`'s worker does; "cpu" is opened beside the interpreter for attacks on the clock."""

    def open_bench(name: str) -> Bench:
        return Bench(
            name,
            target=device.arch or settings.JUDGE_TARGET,
            minimum_sandbox=required_layers(settings.JUDGE_MIN_SANDBOX),
            alternatives=False,
        )

    return open_bench
