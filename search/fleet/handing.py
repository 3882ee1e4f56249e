"""Jobs handed to other machines one by one, over HTTPS: who has which, and until when."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from judge.batch.folder import LEASE_S, token_of
from judge.batch.models import BatchJob
from judge.batch.services import OutcomesRefused, jobs_export, outcomes_import, refusal_keep, signed_line
from judge.bench.exchange import seal
from judge.devices.keys import DeviceKey
from judge.devices.models import Device
from search.fleet.remote import jobs_lost, nodes_answered, requests_waiting
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
    for row in sorted(jobs, key=lambda one: (not one.preflight, one.pk)):
        free = BatchJob.objects.filter(Q(lease_until=None) | Q(lease_until__lte=now), pk=row.pk, imported_at=None)
        if free.filter(refusal="", nonce=row.nonce).acquire(now=now, for_s=LEASE_S, lease_owner=owner):
            return token_of(row.uid, row.nonce), signed_line(row, key)
    return None


def job_renew(*, device: Device, token: str, owner: str, now: datetime) -> bool:
    """Keep a job. False when it is another's by now, or has its outcome."""
    return bool(_held(device, token, owner).renew(now=now, for_s=LEASE_S))


def job_release(*, device: Device, token: str, owner: str, now: datetime) -> bool:
    """Let another one take it at once."""
    return bool(_held(device, token, owner).release(now=now))


def job_refuse(*, device: Device, token: str, owner: str, reason: str) -> bool:
    """It cannot be judged there: it is offered no more, and the page of its search says why."""
    row = _held(device, token, owner).first()
    if row is None:
        return False
    refusal_keep(token=token, reason=reason)
    return True


def job_answer(*, key: DeviceKey, token: str, line: bytes) -> tuple[bool, str, list[FollowUp]]:
    """(whether it counts, why not, what follows). The first outcome of a job counts, whoever holds it."""
    try:
        found = outcomes_import(data=line + b"\n", keys={key.device: key})
    except OutcomesRefused as error:
        refusal_keep(token=token, reason=error.reason, device=key.device)
        return False, error.reason, []
    for one in found.lost:
        BatchJob.objects.filter(pk=one.job.pk).update(lease_until=None)
    _, follow_ups = nodes_answered(evaluations=found.evaluations, known=found.known)
    return True, "", [*follow_ups, *jobs_lost(lost=found.lost)]


def _held(device: Device, token: str, owner: str) -> Any:
    uid, _, nonce = token.partition(".")
    jobs = BatchJob.objects.filter(device=device, uid=uid, nonce__startswith=nonce, imported_at=None)
    return jobs.filter(lease_owner=owner)
