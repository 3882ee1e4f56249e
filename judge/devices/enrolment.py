"""Devices on other machines: enrolled once, with a key that their outcomes are signed with."""

from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings
from django.db import transaction

from judge.bench.device.nvml import gpus_here
from judge.devices.keys import BadKey, DeviceKey, make_key, read_key
from judge.devices.models import Device

FOLDER = "device_keys"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,59}")
_ARCH = re.compile(r"sm_\d{2,3}")


class EnrolmentRefused(Exception):
    """The device cannot be enrolled; the message says what to change. Nothing was written."""


def device_enroll(*, name: str, kind: Device.Kind, arch: str) -> tuple[Device, Path]:
    """Make the device's row and its key file (mode 0600). Raises EnrolmentRefused."""
    if not _NAME.fullmatch(name) or name == "interpreter" or name.startswith("external"):
        raise EnrolmentRefused(
            f"{name!r} is not a valid name: use up to 60 letters, digits and . _ : -, such as lab-h200"
        )
    if not _ARCH.fullmatch(arch):
        raise EnrolmentRefused(f"{arch!r} is not an architecture: use for example sm_90")
    if name in {f"cuda:{gpu.ordinal}" for gpu in gpus_here()}:
        raise EnrolmentRefused(f"{name} is a GPU of this machine and needs no enrolment")
    known = Device.objects.filter(name=name).first()
    if known is not None and known.kind != kind:
        raise EnrolmentRefused(f"{name} already exists and is of kind {known.kind}")
    path = key_path(name)
    try:
        make_key(path, name)
    except BadKey as error:
        raise EnrolmentRefused(f"{error}: the device is enrolled. Remove the file to give it a new key.") from error
    try:
        with transaction.atomic():
            device, _ = Device.objects.update_or_create(
                name=name,
                defaults={"remote": True, "arch": arch},
                create_defaults={"kind": kind, "title": f"{name} (another machine)", "remote": True, "arch": arch},
            )
    except BaseException:
        path.unlink()
        raise
    return device, path


def key_path(name: str) -> Path:
    """Where the key of a device lies."""
    return Path(settings.DATA_DIR) / FOLDER / f"{name.replace(':', '-')}.key"


def enrolled_keys() -> dict[str, DeviceKey]:
    """Keys by device name. Raises BadKey for a file that is malformed or readable by others."""
    folder = key_path("any").parent
    found = [read_key(path) for path in sorted(folder.glob("*.key"))] if folder.is_dir() else []
    return {key.device: key for key in found}
