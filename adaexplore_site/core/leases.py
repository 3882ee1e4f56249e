"""Leases: until when a row belongs to whoever works on it. A lost race is a False, never an error."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

from django.db import Error as DatabaseFault
from django.db import connection, models
from django.db.models import F

T = TypeVar("T")
Row = TypeVar("Row", bound="Leased")

log = logging.getLogger(__name__)
BATCH = 500  # rows that one reap looks at


def beat(
    work: Callable[[], bool], *, every_s: float, name: str, first_s: float = 0.0
) -> tuple[threading.Event, threading.Thread]:
    """Call `work` after `first_s` and then every `every_s` seconds from a daemon thread, until it returns False, the
    event is set or the process ends. A fault of the database costs one call."""
    done = threading.Event()

    def run() -> None:
        try:
            wait_s = first_s
            while not done.wait(wait_s):
                wait_s = every_s
                try:
                    if not work():
                        return
                except DatabaseFault as error:  # locked or away for a moment: try again
                    log.warning("%s: a sign of life was not written: %s", name, error)
                    connection.close()
        finally:
            connection.close()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return done, thread


class LeaseQuerySet(models.QuerySet[Row]):
    """Take, keep and give back the lease of the selected rows. The filters before say who may: a conditional UPDATE
    decides between two that ask at once."""

    def acquire(self, *, now: datetime, for_s: float, **changes: Any) -> bool:
        """Take the lease and count an attempt; the row gets `changes` with it. False when the race is lost."""
        return self.renew(now=now, for_s=for_s, attempts=F("attempts") + 1, **changes)

    def renew(self, *, now: datetime, for_s: float, **changes: Any) -> bool:
        """Push the expiry; False when the filters select no row any more."""
        return bool(self.update(lease_until=now + timedelta(seconds=for_s), **changes))

    def release(self, *, now: datetime, **changes: Any) -> int:
        """End the leases at once, so that the next reap finds them expired; how many there were."""
        return self.update(lease_until=now - timedelta(microseconds=1), **changes)

    def expired(self, now: datetime) -> Self:
        """Rows whose lease has run out."""
        return self.filter(lease_until__lte=now)

    def held(self, now: datetime) -> Self:
        """Rows whose lease runs."""
        return self.filter(lease_until__gt=now)

    def reap(self, now: datetime, each: Callable[[Row, datetime], list[T]]) -> list[T]:
        """Call `each` with every row whose lease has run out, the oldest first; returns what is to be enqueued.

        Others may reap the same rows: `each` changes a row only under a condition that the other's change breaks.
        """
        late = self.expired(now).order_by("lease_until", "pk")[:BATCH]
        return [task for row in late for task in each(row, now)]


class Leased(models.Model):
    """Fields of a row that one worker at a time works on."""

    lease_until = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)  # how often the lease was taken

    objects = LeaseQuerySet.as_manager()

    class Meta:
        abstract = True
