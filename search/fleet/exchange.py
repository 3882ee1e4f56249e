"""A folder that carries jobs to other machines and outcomes back, without a person."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from judge.batch.folder import Folder, Waiting, token_of
from judge.batch.models import BatchJob
from judge.batch.services import Imported, OutcomesRefused, jobs_export, outcomes_import, refusal_keep, signed_line
from judge.devices.keys import DeviceKey
from judge.devices.models import Device
from judge.devices.services import enrolled_keys
from search.fleet.remote import jobs_lost, nodes_answered, requests_waiting
from search.records.queue import FollowUp

log = logging.getLogger(__name__)

PREFLIGHTS, KERNELS, MEASURED_AGAIN = 10, 50, 80  # priorities: searches wait for the first
KEPT = (PREFLIGHTS, KERNELS)  # what an exchange writes, and takes away again when nothing waits for it any more


@dataclass
class Exchanged:
    """What one exchange did. `refused`: outcome files that were put aside, with the reasons; `waiting`: jobs that now
    lie there for an outcome."""

    outcomes: int = 0
    completed: int = 0
    refused: list[str] = field(default_factory=list)
    waiting: int = 0
    follow_ups: list[FollowUp] = field(default_factory=list)


def folder_exchange(*, root: Path, now: datetime) -> Exchanged:
    """Import what lies there, write what waits, take away what nothing waits for. Twice at once does no harm.

    Raises BadKey for a key file that cannot be used, OSError where the folder cannot be read or written.
    """
    done, folder, keys = Exchanged(), Folder(root), enrolled_keys()
    _import(folder, keys, done)
    wanted: set[str] = set()
    for device in Device.objects.judging().filter(remote=True).order_by("pk"):
        key = keys.get(device.name)
        if key is not None and device.state != Device.State.QUARANTINED:
            wanted |= _export(folder, device, key, now)
    done.waiting = len(wanted)
    _withdraw(folder, wanted)
    return done


def jobs_write(folder: Folder, jobs: list[BatchJob], key: DeviceKey, priority: int) -> set[str]:
    """Put exported jobs into the folder, those that do not lie there; the tokens of all."""
    tokens = set()
    for row in jobs:
        place = Waiting(PREFLIGHTS if row.preflight else priority, row.pk, token_of(row.uid, row.nonce))
        if not folder.holds(place):
            folder.put_job(place, signed_line(row, key))
        tokens.add(place.token)
    return tokens


def _export(folder: Folder, device: Device, key: DeviceKey, now: datetime) -> set[str]:
    requests = requests_waiting(device=device, now=now)
    return jobs_write(folder, jobs_export(requests=requests, device=device), key, KERNELS)


def _import(folder: Folder, keys: dict[str, DeviceKey], done: Exchanged) -> None:
    for path, line in folder.outcomes():
        try:
            found = outcomes_import(data=line, keys=keys)
        except OutcomesRefused as error:
            log.warning("the outcome %s is refused and put aside: %s", path.name, error.reason)
            refusal_keep(token=path.stem, reason=error.reason)
            done.refused.append(f"{path.name}: {error.reason}")
            folder.put_aside(path)
            continue
        _tell(found, done)
        folder.imported(path)
    for token, why in folder.refusals().items():
        refusal_keep(token=token, reason=why)


def _tell(found: Imported, done: Exchanged) -> None:
    told, follow_ups = nodes_answered(evaluations=found.evaluations, known=found.known)
    done.outcomes += len(found.evaluations) + len(found.preflights)
    done.completed += len(told)
    done.follow_ups += [*follow_ups, *jobs_lost(lost=found.lost)]


def _withdraw(folder: Folder, wanted: set[str]) -> None:
    for job in folder.waiting():
        if job.priority in KEPT and job.token not in wanted:
            folder.withdraw(job)
