"""What the commands share: refusals as errors of the command, rows by number, files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from django.core.management.base import CommandError
from django.db.models import Model, QuerySet

from judge.devices.models import Device
from judge.devices.services import DeviceMissing, device_get, devices_sync

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


def device_of(name: str) -> Device:
    """The device with that name, of those that are there now. Raises CommandError."""
    devices_sync()
    with refusals(DeviceMissing):
        return device_get(name=name)
