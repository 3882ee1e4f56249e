"""Which devices judge, and whether they are trusted."""

from __future__ import annotations

from django.db.models import QuerySet

from judge.devices.models import Device
from judge.selftest.models import SelfTest


def judging_devices() -> QuerySet[Device]:
    """Active devices that a worker of ours serves, the interpreter first."""
    return served_devices().filter(state=Device.State.ACTIVE)


def served_devices() -> QuerySet[Device]:
    """Every device that a worker of ours serves, whatever its state: a draining one still ends what it began."""
    kinds = (Device.Kind.INTERPRETER, Device.Kind.CUDA)
    return Device.objects.filter(kind__in=kinds, remote=False).order_by("-kind", "name")


def device_trusted(device: Device) -> bool:
    """Whether what this device says may become a best: not when its last finished self-test missed anything."""
    finished = SelfTest.objects.filter(device=device, state=SelfTest.State.FINISHED)
    return not finished.order_by("-id").values_list("red", flat=True).first()
