"""Does a device still do what it did? Times of the same work, now and as stored.

A problem's eager time may have two levels of its own (on an H200 one softmax took 409 us or 447 us, for minutes each):
it tells when baselines no longer belong together. The calibration kernel's time holds still: it tells of the device.
"""

from __future__ import annotations

from dataclasses import dataclass

from judge.bench.runner import Bench
from judge.devices.models import DeviceCheck
from judge.evaluations.models import Evaluation, Measurement
from judge.values import Basis, Subject

LIMIT = 0.03  # a baseline further off than this has drifted
LEAST_US = 1.0  # what two processes with the same kernels may differ by; more than 3 % only below 33 us


@dataclass(frozen=True)
class Drift:
    """Medians in microseconds of the same work, earlier and now. `far`: beyond the limit and what chance explains."""

    was_us: float
    is_us: float
    far: bool

    @property
    def share(self) -> float:
        """Now over earlier, less one: 0.05 is 5 % slower."""
        return self.is_us / self.was_us - 1

    @property
    def text(self) -> str:
        """`465.0 us, +4.0% against earlier`."""
        return f"{self.is_us:.1f} µs, {self.share:+.1%} against earlier"


def eager_drift(evaluation: Evaluation) -> Drift | None:
    """Against the first evaluation of the problem on this device since its baselines were last given up, with the same
    toolchain and protocol. None where nothing was measured, or nothing before."""
    eager = Measurement.objects.filter(subject=Subject.EAGER.value, basis=Basis.MEASURED.value)
    now = eager.filter(evaluation=evaluation).first()
    if now is None:
        return None
    earlier = eager.filter(
        evaluation__problem=evaluation.problem_id,
        evaluation__device=evaluation.device_id,
        evaluation__toolchain=evaluation.toolchain,
        evaluation__protocol=evaluation.protocol,
        evaluation__lt=evaluation.pk,
    )
    since = evaluation.device.baselines_at
    if since is not None:
        earlier = earlier.filter(evaluation__created_at__gt=since)
    stored = earlier.order_by("evaluation_id").first()
    return _between(stored, now) if stored is not None else None


def kernel_drift(found: DeviceCheck) -> Drift | None:
    """The calibration kernel against the first calibration since the device was last activated. `far` when the one
    before was off as well. None where nothing was measured, or nothing before."""
    if found.kernel_us is None:
        return None
    same = DeviceCheck.objects.filter(
        device=found.device_id,
        identity=found.identity,
        toolchain=found.toolchain,
        cause="",
        kernel_us__isnull=False,
        pk__lt=found.pk,
    )
    since = found.device.state_at
    if since is not None:
        same = same.filter(created_at__gt=since)
    stored = same.order_by("pk").values_list("kernel_us", flat=True).first()
    before = same.order_by("-pk").values_list("kernel_us", flat=True).first()
    if stored is None or before is None:
        return None
    off = [abs(us - stored) > LIMIT * stored for us in (before, found.kernel_us)]
    return Drift(stored, found.kernel_us, far=all(off))


def _between(stored: Measurement, now: Measurement) -> Drift:
    # Beyond what the clock of short kernels can tell, and with intervals that do not meet.
    apart = now.low_us > stored.high_us or now.high_us < stored.low_us
    off_us = abs(now.median_us - stored.median_us)
    far = apart and off_us > LEAST_US and off_us > LIMIT * stored.median_us
    return Drift(stored.median_us, now.median_us, far)


def baselines_forget(bench: Bench) -> None:
    """Have every baseline of this bench's device measured again; compiled code stays."""
    if bench.baselines is not None:
        bench.baselines.forget_all()
