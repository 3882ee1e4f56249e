"""Jobs handed to other machines one by one, over HTTPS: who has which, and until when."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from judge.batch.folder import LEASE_S, token_of
from judge.batch.models import BatchJob
from judge.batch.services import OutcomesRefused, job_returned, jobs_export, outcomes_import, signed_line
from judge.bench.exchange import seal
from judge.devices.keys import DeviceKey
from judge.devices.models import Device
from search.fleet.remote import job_stopped, job_wanted, jobs_lost, nodes_answered, requests_waiting
from search.records.queue import FollowUp

SKEW = timedelta(minutes=15)  # clocks of the two machines may differ by so much


class NotSealed(Exception):
    """The request does not prove that it comes from a machine with the device's key; the text says what to do."""


def sealed_check(*, asked: dict[str, Any], key: DeviceKey, verb: str, now: datetime) -> None:
    """Raise NotSealed unless `asked` was sealed with this key, for this verb, a short while ago."""
    body = {name: value for name, value in asked.items() if name != "mac"}
    genuine = seal.verified(body, str(asked["mac"]), key=key.secret, nonce=str(body["nonce"]))
    if not genuine or (body["device"], body["verb"]) != (key.device, verb):
        raise NotSealed(f"The request is not sealed with the key of {key.device}.")
    try:
        at = datetime.fromisoformat(str(body["at"]))
        fresh = abs(now - at) <= SKEW
    except (ValueError, TypeError):
        fresh = False
    if not fresh:
        raise NotSealed("The request is too old, or the clocks of the two machines differ by more than 15 minutes.")


def job_take(*, device: Device, key: DeviceKey, owner: str, now: datetime) -> tuple[str, bytes] | None:
    """(token, line) of the most urgent job of the device that nobody has, leased to `owner`; None without one."""
    if device.state == Device.State.QUARANTINED:
        return None
    jobs = jobs_export(requests=requests_waiting(device=device, now=now), device=device)
    free = BatchJob.objects.filter(Q(lease_until=None) | Q(lease_until__lte=now), imported_at=None)
    open_ones = set(free.filter(pk__in=[row.pk for row in jobs]).values_list("pk", flat=True))
    for row in sorted(jobs, key=lambda one: (not one.preflight, one.pk)):
        mine = free.filter(pk=row.pk, nonce=row.nonce)
        if row.pk in open_ones and mine.acquire(now=now, for_s=LEASE_S, lease_owner=owner, lease_since=now):
            return token_of(row.uid, row.nonce), signed_line(row, key)
    return None


def job_renew(*, device: Device, token: str, owner: str, now: datetime) -> bool:
    """Keep a job. False when it is another's by now, has its outcome, or nobody waits for it any more: it was stopped,
    or an equal kernel has its verdict."""
    row = _held(device, token, owner).select_related("device").first()
    if row is None or not job_wanted(job=row, now=now):
        return False
    return bool(_held(device, token, owner).renew(now=now, for_s=LEASE_S))


def job_release(*, device: Device, token: str, owner: str, now: datetime) -> bool:
    """Let another one take it at once. Where nobody waits for it any more, its time there is booked."""
    row = _held(device, token, owner).select_related("device").first()
    if row is None or not _held(device, token, owner).filter(lease_since=row.lease_since).release(
        now=now, lease_since=None
    ):
        return False
    if row.lease_since is not None and not job_wanted(job=row, now=now):
        job_stopped(job=row, device_ms=(now - row.lease_since).total_seconds() * 1e3, now=now)
    return True


def job_refuse(*, device: Device, token: str, owner: str, reason: str) -> tuple[bool, list[FollowUp]]:
    """It cannot be judged there: a fault like others of that machine. (Whether it counts, what follows.)"""
    if not _held(device, token, owner).exists():
        return False, []
    return True, _returned(device, token, reason)


def _returned(device: Device, token: str, reason: str) -> list[FollowUp]:
    """The job waits for another try, and the page of its search says why; three faults in a row quarantine the device,
    and after some tries the step is withdrawn."""
    found = job_returned(token=token, reason=reason, device=device)
    return jobs_lost(lost=[found]) if found is not None else []


def job_answer(*, device: Device, key: DeviceKey, token: str, line: bytes) -> tuple[bool, str, list[FollowUp]]:
    """(whether it counts, why not, what follows). The first outcome of a job counts, whoever holds it; one that cannot
    be imported gives the job back."""
    try:
        found = outcomes_import(data=line + b"\n", keys={key.device: key})
    except OutcomesRefused as error:
        return False, error.reason, _returned(device, token, error.reason)
    _, follow_ups = nodes_answered(evaluations=found.evaluations, known=found.known)
    return True, "", [*follow_ups, *jobs_lost(lost=found.lost)]


def _held(device: Device, token: str, owner: str) -> Any:
    uid, _, nonce = token.partition(".")
    jobs = BatchJob.objects.filter(device=device, uid=uid, nonce__startswith=nonce, imported_at=None)
    return jobs.filter(lease_owner=owner)
