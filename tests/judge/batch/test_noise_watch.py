"""A GPU that serves knows its noise floor, and judges nothing while it is too noisy."""

from __future__ import annotations

from judge.batch.noise_watch import AGAIN_S, EVERY_S, NoiseWatch
from judge.selftest.noise import Noise, NotRight


class Gpu:
    device = "cuda:0"


def quiet(floor: float = 0.005) -> Noise:
    return Noise(floor, 1.0, 0.99, 1.01, 30, 92.0)


class Watched:
    """A watch with a clock to move and the noises it will measure."""

    def __init__(self, *found: object, device: str = "cuda:0") -> None:
        self.now, self.found, self.said = 0.0, list(found), []
        bench = Gpu()
        bench.device = device
        self.watch = NoiseWatch(bench, {"a": 1}, say=self.said.append, measure=self.measure, clock=lambda: self.now)

    def measure(self, bench: object) -> Noise:
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def test_it_is_measured_at_the_start_and_every_hour() -> None:
    one = Watched(quiet(), quiet(0.01))
    assert one.watch.fingerprint()["noise"]["floor"] == 0.005
    one.now = EVERY_S - 1
    assert one.watch.fingerprint()["noise"]["floor"] == 0.005
    one.now = EVERY_S
    assert one.watch.fingerprint()["noise"]["floor"] == 0.01 and not one.found


def test_noise_is_measured_twice_before_it_counts_and_again_after_a_while() -> None:
    one = Watched(quiet(0.2), quiet(), quiet(0.2), quiet(0.2), quiet())
    assert one.watch.fingerprint() is not None
    one.now = EVERY_S
    assert one.watch.fingerprint() is None and "too noisy" in "".join(one.said)
    one.now += AGAIN_S - 1
    assert one.watch.fingerprint() is None
    one.now += 1
    assert one.watch.fingerprint() is not None


def test_a_kernel_that_is_not_right_stops_it_too() -> None:
    one = Watched(NotRight("a kernel that is right ended as wrong"))
    assert one.watch.fingerprint() is None and "ended as wrong" in one.said[0]


def test_without_a_gpu_nothing_is_measured() -> None:
    assert Watched(device="interpreter").watch.fingerprint() == {"a": 1}
