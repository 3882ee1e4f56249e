"""What the commands share: refusals as errors of the command, rows by number, files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from django.conf import settings
from django.core.management.base import CommandError
from django.db.models import Model, QuerySet
from django.utils import timezone

from judge.devices.carrying import serve_command
from judge.devices.keys import BadKey
from judge.devices.models import Device
from judge.devices.services import DeviceMissing, device_get, devices_sync
from search.fleet.exchange import folder_exchange
from search.records.queue import FollowUp

JOBS = "for an enrolled device: the folder that it serves (default: JUDGE_FOLDER)"
Row = TypeVar("Row", bound=Model)


@contextmanager
def refusals(*kinds: type[Exception]) -> Iterator[None]:
    """Exceptions of these kinds end the command with their text."""
    try:
        yield
    except kinds as error:
        raise CommandError(str(error)) from error


@contextmanager
def file_errors(path: Path, what: str) -> Iterator[None]:
    """What the operating system refuses about a file ends the command: `out.json cannot be written: no space`."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"{path} cannot be {what}: {error.strerror or error}.") from error


def row_of(rows: QuerySet[Row], number: int, noun: str) -> Row:
    """The row with that number. Raises CommandError."""
    row = rows.filter(pk=number).first()
    if row is None:
        raise CommandError(f"There is no {noun} {number}.")
    return row


def exchange_of(device: Device, folder: Path | None) -> Callable[[], list[FollowUp]]:
    """What a driver calls to exchange jobs with the machine of an enrolled device; nothing for one of this machine.
    Raises CommandError without a folder, and where it cannot be used."""
    if not device.remote:
        return list
    root = folder or (Path(settings.JUDGE_FOLDER) if settings.JUDGE_FOLDER else None)
    if root is None:
        there = serve_command(device, "FOLDER")
        raise CommandError(f"{device.name} is on another machine. Give --jobs FOLDER, which is served there: {there}")

    def exchange() -> list[FollowUp]:
        with refusals(BadKey), file_errors(root, "used"):
            return folder_exchange(root=root, now=timezone.now()).follow_ups

    return exchange


def device_of(name: str) -> Device:
    """The device with that name, of those that are there now. Raises CommandError."""
    devices_sync()
    with refusals(DeviceMissing):
        return device_get(name=name)
