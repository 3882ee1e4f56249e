"""The rows of every room, where Django looks for them. Import each from its own room."""

from __future__ import annotations

from judge.batch.models import BatchJob
from judge.devices.models import Device, DeviceCheck
from judge.evaluations.models import CaseMeasurement, Evaluation, Measurement, Race, SanitizerCheck
from judge.problems.models import Problem, SealedSet
from judge.selftest.models import SelfTest

__all__ = [
    "BatchJob", "CaseMeasurement", "Device", "DeviceCheck", "Evaluation", "Measurement", "Problem", "Race",
    "SanitizerCheck", "SealedSet",
    "SelfTest",
]  # fmt: skip
