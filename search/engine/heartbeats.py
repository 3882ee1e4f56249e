"""A worker's sign of life: while its process lives, the devices that it serves are marked as seen."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import datetime

from django.db import Error as DatabaseFault
from django.db import connection
from django.utils import timezone

from judge.devices.models import Device

log = logging.getLogger(__name__)

BEAT_S = 15.0
SILENT_S = 60.0  # later than that no worker is taken to serve a device


def device_beat(*, device_ids: Sequence[int], now: datetime) -> None:
    """Mark these devices as seen."""
    Device.objects.filter(pk__in=device_ids).update(seen_at=now)


def heartbeat_start(device_ids: Sequence[int], *, every_s: float = BEAT_S) -> threading.Event | None:
    """Beat from a daemon thread until the process ends, or the event is set: a worker that judges for minutes goes on
    beating, a killed one stops by itself. None without devices."""
    if not device_ids:
        return None
    done = threading.Event()

    def beat() -> None:
        try:
            while True:
                try:
                    device_beat(device_ids=device_ids, now=timezone.now())
                except DatabaseFault as error:  # locked or away for a moment: try again
                    log.warning("the heartbeat of devices %s was not written: %s", list(device_ids), error)
                    connection.close()
                if done.wait(every_s):
                    return
        finally:
            connection.close()

    threading.Thread(target=beat, name="device-heartbeat", daemon=True).start()
    return done
