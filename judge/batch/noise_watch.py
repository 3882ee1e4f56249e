"""The noise floor of the GPU that serves: measured at the start and every hour, and said in each outcome. No Django."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from judge.batch.command import Say
from judge.bench.runner import Bench
from judge.selftest.noise import Noise, NotRight, calibration_kernel, measure_noise
from judge.values import JudgeError

EVERY_S = 3600.0
AGAIN_S = 600.0  # after a check that was not passed
ALLOWED = 0.03


def noise_now(bench: Bench) -> Noise:
    """A kernel against itself. Raises NotRight, and JudgeError for a fault of the judge."""
    return measure_noise(bench, calibration_kernel(timed=True))


class NoiseWatch:
    """What this GPU signs its outcomes with, while its noise is within `allowed`, a share. Without a GPU nothing is
    measured, and the fingerprint stays as it is."""

    def __init__(
        self,
        bench: Bench,
        fingerprint: dict[str, Any],
        *,
        say: Say,
        allowed: float = ALLOWED,
        measure: Callable[[Bench], Noise] = noise_now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bench, self._fingerprint, self._say, self._allowed = bench, fingerprint, say, allowed
        self._measure, self._clock = measure, clock
        self._due: float | None = None
        self._noise: Noise | None = None

    def fingerprint(self) -> dict[str, Any] | None:
        """None while the GPU is too noisy or not right: it judges nothing then, and is measured again later."""
        if not self._bench.device.startswith("cuda"):
            return self._fingerprint
        if self._due is None or self._clock() >= self._due:
            self._check()
        return None if self._noise is None else {**self._fingerprint, "noise": dataclasses.asdict(self._noise)}

    def _check(self) -> None:
        self._noise = None
        try:
            noise = self._measure(self._bench)
            if noise.floor > self._allowed:
                noise = self._measure(self._bench)  # once more before it counts
        except (NotRight, JudgeError) as error:
            self._say(f"the noise check was not passed: {error}")
        else:
            within = noise.floor <= self._allowed
            self._noise = noise if within else None
            self._say(f"noise floor {noise.floor:.2%}, allowed {self._allowed:.2%}{'' if within else ': too noisy'}")
        if self._noise is None:
            self._say(f"nothing is judged here; checked again in {AGAIN_S / 60:.0f} minutes")
        self._due = self._clock() + (AGAIN_S if self._noise is None else EVERY_S)
