"""Rows of devices and of their checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from judge.values import Basis, Limits

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MODELLED_ELSEWHERE = "modelled:"  # begins the names of external devices whose imported numbers a time model made


@dataclass(frozen=True)
class Traits:
    """What the devices of a kind do. Ask a device or the queryset; only `TRAITS` tells kinds apart."""

    basis: Basis | None  # of its times; None: it has none
    limits: Limits  # of one evaluation
    nothing_judged: StrOrPromise = ""  # why nothing is judged on %(device)s; empty where kernels are judged
    imported: bool = False  # it owns the figures of imported searches


def kinds(asked: Callable[[Traits], bool]) -> list[Device.Kind]:
    """The kinds of which `asked` holds, for queries."""
    return [kind for kind, traits in TRAITS.items() if asked(traits)]


class DeviceQuerySet(models.QuerySet["Device"]):
    def judging(self) -> Self:
        """Those that say what is right: they run kernels, here or on another machine."""
        return self.filter(kind__in=kinds(lambda traits: not traits.nothing_judged))

    def served(self) -> Self:
        """Those that a worker here judges on."""
        return self.judging().filter(remote=False)

    def gpus(self) -> Self:
        """Those that kernels are timed on, here or on another machine."""
        return self.filter(kind__in=kinds(lambda traits: traits.basis is Basis.MEASURED))

    def imported(self) -> Self:
        """Those that only own the figures of imported searches."""
        return self.filter(kind__in=kinds(lambda traits: traits.imported))

    def with_times(self) -> Self:
        """Those that kernels have times on."""
        return self.filter(kind__in=kinds(lambda traits: traits.basis is not None))


class Device(models.Model):
    """A place where candidates are judged. `compile` devices run nothing, `external` ones only own imported numbers."""

    class Kind(models.TextChoices):
        INTERPRETER = "interpreter", _("Interpreter")
        CUDA = "cuda", _("Cuda")
        COMPILE = "compile", _("Compile")
        EXTERNAL = "external", _("External")

    class State(models.TextChoices):
        ACTIVE = "active", _("Active")
        DRAINING = "draining", _("Draining")
        QUARANTINED = "quarantined", _("Quarantined")

    class Cause(models.TextChoices):
        """What the judge quarantines a device for."""

        NOISE = "noise"  # its calibration lies outside the allowed noise floor
        DRIFT = "drift"  # its baselines do not hold still
        FAULTS = "faults"  # the judge failed there again and again
        GPU = "gpu"  # its driver reports errors, or it is gone

    # "interpreter", "cuda:0", "compile:sm_90", "external:NVIDIA RTX A6000", "modelled:sm_90"
    name = models.CharField(max_length=60, unique=True)
    kind = models.CharField(max_length=12, choices=Kind.choices)
    title = models.CharField(max_length=120)
    arch = models.CharField(max_length=20, blank=True)  # "sm_90": what it is, or what the interpreter models
    facts = models.JSONField(default=dict, blank=True)  # peaks, versions, active sandbox layers
    state = models.CharField(max_length=12, choices=State.choices, default=State.ACTIVE)
    state_cause = models.CharField(max_length=10, choices=Cause.choices, blank=True)  # "": a person's decision
    state_reason = models.CharField(max_length=300, blank=True)
    state_at = models.DateTimeField(null=True, blank=True)
    faults = models.PositiveSmallIntegerField(default=0)  # of the judge, in a row
    drifts = models.PositiveSmallIntegerField(default=0)  # evaluations in a row whose eager time was off
    baselines_at = models.DateTimeField(null=True, blank=True)  # what was measured before is measured again
    seen_at = models.DateTimeField(null=True, blank=True)
    remote = models.BooleanField(default=False)  # enrolled: jobs go there as files, no worker here serves it

    # A class: any GPU of one model with the same driver, torch and Triton, which its facts hold. Each evaluation says
    # which GPU it was; numbers of two of its GPUs are compared by races alone.
    pooled = models.BooleanField(default=False)

    objects = DeviceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state_cause="") | Q(state="quarantined"), name="device_cause_only_in_quarantine"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def judges(self) -> bool:
        """Whether it says what is right: it runs kernels, here or on another machine."""
        return not self.traits.nothing_judged

    @property
    def served(self) -> bool:
        """Whether a worker here judges on it."""
        return self.judges and not self.remote

    @property
    def takes_searches(self) -> bool:
        """Whether a search may start on it now: on an enrolled one its kernels leave as jobs."""
        return self.judges and self.state == self.State.ACTIVE

    @property
    def is_gpu(self) -> bool:
        """Whether kernels are timed on it, here or on another machine."""
        return self.basis is Basis.MEASURED

    @property
    def measures(self) -> bool:
        """Whether a worker here times kernels on it, so that it has a noise floor."""
        return self.is_gpu and not self.remote

    @property
    def checkable(self) -> bool:
        """Whether a check from here tells more than that it is there: its noise, or the cause of a quarantine."""
        return self.served and bool(self.measures or self.state_cause)

    @property
    def imported(self) -> bool:
        """Whether it only owns the figures of imported searches."""
        return self.traits.imported

    @property
    def limits(self) -> Limits:
        """What one evaluation on it may take."""
        return self.traits.limits

    @property
    def traits(self) -> Traits:
        return TRAITS[self.Kind(self.kind)]

    @property
    def queue(self) -> str:
        """Name of the Celery queue that this device's worker serves. Of an enrolled device, which has none here, the
        one of the workers that talk to others."""
        return settings.CELERY_TASK_DEFAULT_QUEUE if self.remote else f"device.{self.name.replace(':', '-')}"

    @property
    def basis(self) -> Basis | None:
        """What a time from this device is: measured, MODELLED or reported. None: it has no times."""
        return Basis.MODELLED if self.name.startswith(MODELLED_ELSEWHERE) else self.traits.basis


TRAITS = {
    Device.Kind.INTERPRETER: Traits(Basis.MODELLED, Limits(wall_s=60, stage_s=30)),
    Device.Kind.CUDA: Traits(Basis.MEASURED, Limits(wall_s=120, stage_s=60)),
    Device.Kind.COMPILE: Traits(
        None,
        Limits(wall_s=90, stage_s=60),
        nothing_judged=_("%(device)s only compiles; nothing is judged there."),
    ),
    Device.Kind.EXTERNAL: Traits(
        Basis.REPORTED,
        Limits(),
        nothing_judged=_("%(device)s only owns imported numbers; nothing is judged there."),
        imported=True,
    ),
}


class DeviceCheck(models.Model):
    """One check of a device: a kernel that is right, against itself. Never edited; the last tells the noise floor."""

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="checks")
    identity = models.CharField(max_length=80, blank=True)  # the GPU's UUID: its successor starts anew
    toolchain = models.CharField(max_length=120, blank=True)
    cause = models.CharField(max_length=10, choices=Device.Cause.choices, blank=True)  # why it did not pass; "": it did
    message = models.TextField(blank=True)
    # Nulls where nothing is timed, or where it ended before.
    noise_floor = models.FloatField(null=True, blank=True)  # a share: 0.006 is 0.6 %
    allowed = models.FloatField(null=True, blank=True)
    ratio = models.FloatField(null=True, blank=True)  # median over pairs, with its 99.8 % interval
    ratio_low = models.FloatField(null=True, blank=True)
    ratio_high = models.FloatField(null=True, blank=True)
    pairs = models.PositiveIntegerField(null=True, blank=True)
    kernel_us = models.FloatField(null=True, blank=True)
    gpu_errors = models.PositiveBigIntegerField(null=True, blank=True)  # uncorrected, as its driver counts them
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.CheckConstraint(
                condition=Q(noise_floor__isnull=True)
                | (
                    Q(noise_floor__gte=0, allowed__gt=0, pairs__gte=1, ratio__gt=0, kernel_us__gt=0)
                    & Q(allowed__isnull=False, pairs__isnull=False, ratio__isnull=False, kernel_us__isnull=False)
                ),
                name="device_check_noise_has_evidence",
            ),
            models.CheckConstraint(
                condition=~Q(cause="") | Q(noise_floor__isnull=True) | Q(noise_floor__lte=models.F("allowed")),
                name="device_check_passed_is_within",
            ),
        ]
        indexes = [models.Index(fields=["device", "-id"], name="device_check_last")]  # the page of a device

    def __str__(self) -> str:
        return f"check {self.pk} of {self.device_id}: {self.cause or 'passed'}"

    @property
    def passed(self) -> bool:
        """Whether the device may go on."""
        return not self.cause
