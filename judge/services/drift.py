"""Does a device still do what it did? The eager time of a problem, beside the one stored from an earlier evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from judge.models import Evaluation, Measurement
from judge.runner import Bench
from judge.values import Basis, Subject

LIMIT = 0.03  # a baseline further off than this has drifted
LEAST_US = 1.0  # what two processes with the same kernels may differ by; more than 3 % only below 33 us


@dataclass(frozen=True)
class Drift:
    """Medians in microseconds of the same eager reference, earlier and now. `far`: beyond the limit, beyond what the
    clock of short kernels can tell, and with intervals that do not meet."""

    was_us: float
    is_us: float
    far: bool

    @property
    def share(self) -> float:
        """Now over earlier, less one: 0.05 is 5 % slower."""
        return self.is_us / self.was_us - 1


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


def _between(stored: Measurement, now: Measurement) -> Drift:
    apart = now.low_us > stored.high_us or now.high_us < stored.low_us
    off_us = abs(now.median_us - stored.median_us)
    far = apart and off_us > LEAST_US and off_us > LIMIT * stored.median_us
    return Drift(stored.median_us, now.median_us, far)


def baselines_forget(bench: Bench) -> None:
    """Have every baseline of this bench's device measured again; compiled code stays."""
    if bench.baselines is not None:
        bench.baselines.forget_all()
