"""Jobs for machines with a GPU: take one, keep it, hand in its outcome. `python -m judge.bench serve URL` asks."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Field, Router, Schema
from ninja.errors import HttpError

from adaexplore_site.core.access import Role, require
from judge.devices.keys import BadKey
from judge.devices.models import Device
from judge.devices.services import device_seen, enrolled_keys
from search.fleet.handing import NotSealed, job_answer, job_refuse, job_release, job_renew, job_take, sealed_check
from search.records.queue import send

router = Router(tags=["jobs"])


class JobAsk(Schema):
    """A request sealed with the key of the device."""

    device: str = Field(max_length=60)
    verb: str = Field(max_length=20)
    owner: str = Field(max_length=120, description="the process that asks")
    token: str = Field("", max_length=120, description="the job, but for take")
    line: str = Field("", description="the signed outcome, or why the job cannot be judged")
    at: str = Field(max_length=40)
    nonce: str = Field(max_length=64)
    mac: str = Field(max_length=128)


class JobAnswer(Schema):
    """`token` and `line` of a job that was taken, null where none waits; `done`: whether the request counted."""

    done: bool
    token: str | None = None
    line: str | None = None
    why: str = ""


@router.post("/jobs/{name}/{verb}", response=JobAnswer, summary="Take, keep, answer or give back a job of a device")
def job(
    request: HttpRequest, name: str, verb: Literal["take", "renew", "release", "refuse", "answer"], asked: JobAsk
) -> Any:
    """Needs the role operator and the key of the device."""
    require(request.user, Role.OPERATOR)
    device = get_object_or_404(Device.objects.judging(), name=name, remote=True)
    now = timezone.now()
    try:
        key = enrolled_keys().get(device.name)
    except BadKey as error:
        raise HttpError(409, str(error)) from error
    if key is None:
        raise HttpError(409, f"The key of {device.name} is gone here. judge_enroll_device {device.name} makes another.")
    try:
        sealed_check(asked=asked.dict(), key=key, verb=verb, now=now)
    except NotSealed as error:
        raise HttpError(403, str(error)) from error
    device_seen(device=device, now=now)
    held: dict[str, Any] = {"device": device, "token": asked.token, "owner": asked.owner}
    if verb == "take":
        found = job_take(device=device, key=key, owner=asked.owner, now=now)
        return JobAnswer(done=True, token=found[0], line=found[1].decode()) if found else JobAnswer(done=True)
    if verb == "answer":
        done, why, follow_ups = job_answer(device=device, key=key, token=asked.token, line=asked.line.encode())
        send(follow_ups)
        return JobAnswer(done=done, why=why)
    if verb == "refuse":
        done, follow_ups = job_refuse(**held, reason=asked.line)
        send(follow_ups)
        return JobAnswer(done=done)
    return JobAnswer(done=(job_renew if verb == "renew" else job_release)(**held, now=now))
