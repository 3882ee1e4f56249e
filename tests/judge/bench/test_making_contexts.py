"""CUDA contexts are made beside measurements that can bear it, and beside no other."""

from __future__ import annotations

import random
import select
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from judge.bench.device.gpu_lock import LONGEST_PUT_OFF_S, MAKING, GpuLock
from judge.bench.device.lock_table import Held, keeping, sharing
from judge.bench.timing import measured
from judge.bench.timing.measured import Runner
from judge.bench.timing.undisturbed import Undisturbed
from tests.judge.bench.test_gpu_lock import finish, hear, say, start, two, until_waiting
from tests.judge.bench.test_measuring_in_turns import bare

__all__ = ["two"]  # a fixture

MAKER = """
import sys
from judge.bench.device import gpu_lock
from judge.bench.device.gpu_lock import making_context
gpu_lock.LONGEST_PUT_OFF_S = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
with making_context(sys.argv[1]):
    print('makes', flush=True)
    sys.stdin.readline()
print('made', flush=True)
"""


def test_contexts_are_made_beside_checks_a_wait_and_a_measurement_by_turns(two) -> None:
    path, one, other = two
    makers = [start(path, MAKER) for _ in range(2)]
    assert [hear(maker) for maker in makers] == ["makes", "makes"], "nobody is waited for"
    say(one, "contexts?")
    assert hear(one) == "True"
    say(one, "leave")
    assert hear(other) == "alone", "nor are they"
    finish(*makers)


def test_who_would_read_a_context_in_the_making_waits_for_it_and_has_none_begin(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    one, other, early = start(path), start(path), start(path, MAKER)
    assert (hear(one), hear(other), hear(early)) == ("shared", "shared", "makes")
    say(other, "leave")
    say(one, "without contexts")
    until_waiting(path, one)
    late = start(path, MAKER)
    until_waiting(path, late)
    say(early, "done")
    assert (hear(early), hear(one)) == ("made", "none"), "it does not starve behind those that come meanwhile"
    until_waiting(path, late)
    say(one, "end of turn")
    assert (hear(one), hear(late)) == ("again", "makes")
    say(one, "contexts?")
    assert hear(one) == "True"
    late.kill()
    late.wait()
    say(one, "contexts?")
    assert hear(one) == "False", "who dies while it makes one is waited for by nobody"
    finish(one, other, early, late)


def silent(child: subprocess.Popen[str]) -> bool:
    """Whether it says nothing for a while."""
    return not select.select([child.stdout], [], [], 0.3)[0]


def test_contexts_are_waited_for_and_put_off_while_another_has_the_gpu(two) -> None:
    path, one, other = two
    early = start(path, MAKER)
    assert hear(early) == "makes"
    say(one, "put off")
    assert hear(other) == "alone", "it has let go of the GPU"
    while not (late := beginning(path, MAKER)):
        continue
    assert silent(one)
    say(early, "done")
    assert hear(early) == "made"
    hurried = start(path, MAKER, "0.05")
    assert hear(hurried) == "makes", "nobody waits long for a measurement that has not begun"
    say(hurried, "done")
    assert hear(hurried) == "made"
    assert silent(one) and silent(late), "the GPU is another's"
    say(other, "end of turn")
    assert hear(other) == "again" and silent(one)
    say(other, "leave")
    assert hear(one) == "none" and silent(late)
    say(one, "end of turn")
    assert (hear(one), hear(late)) == ("again", "makes")
    say(one, "alone")
    assert hear(one) == "alone", "it shares the GPU as before"
    finish(early, late, hurried)


def beginning(path: Path, program: str) -> subprocess.Popen[str] | None:
    """A maker that is kept from making; None where it came before the measurement that is to keep it."""
    maker = start(path, program)
    if silent(maker):
        return maker
    finish(maker)
    return None


def test_a_measurement_waits_for_contexts_no_longer_than_others_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [10.0]
    monkeypatch.setattr("judge.bench.device.gpu_lock.time.sleep", lambda s: now.__setitem__(0, now[0] + s))
    path = tmp_path / "gpu.lock"
    path.touch()
    maker = start(path, MAKER)
    assert hear(maker) == "makes"
    with path.open("r+") as handle:
        lock = GpuLock(handle.fileno(), clock=lambda: now[0])
        with lock.shared(), lock.alone(puts_off=True):
            assert lock.contexts_are_made()
        assert LONGEST_PUT_OFF_S <= lock.use.waited_alone_s < LONGEST_PUT_OFF_S + 0.1
    finish(maker)


def test_a_dead_measurement_keeps_no_context_from_being_made(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    one = start(path)
    say(one, "without contexts")
    assert (hear(one), hear(one)) == ("shared", "none")
    maker = start(path, MAKER)
    until_waiting(path, maker)
    one.kill()
    assert hear(maker) == "makes"
    finish(one, maker)


def test_who_keeps_contexts_off_sees_none_and_says_how_long_that_took(tmp_path: Path) -> None:
    now = [10.0]

    def waiting() -> AbstractContextManager[None]:
        now[0] += 3.0
        say(maker, "done")
        return nullcontext()

    path = tmp_path / "gpu.lock"
    path.touch()
    maker = start(path, MAKER)
    assert hear(maker) == "makes"
    with path.open("r+") as handle:
        lock = GpuLock(handle.fileno(), waiting, clock=lambda: now[0])
        with lock.shared(), lock.alone(), lock.without_contexts():
            assert not lock.contexts_are_made()
            second = start(path, MAKER)
            until_waiting(path, second)
        assert hear(second) == "makes"
    assert lock.use.to_json()["gpu_waited_contexts_s"] == 3.0
    finish(maker, second)


def test_without_a_gpu_nobody_makes_a_context() -> None:
    lock = GpuLock(None)
    with lock.shared(), lock.alone(puts_off=True), lock.without_contexts(), lock.making():
        assert not lock.contexts_are_made()


def test_a_context_that_is_never_done_keeps_measurements_away() -> None:
    making = [Held(7, MAKING, alone=False, waits=False)]
    assert keeping(making, {7}) and sharing(making, {7}) and not keeping(making, {8})


class Lock:
    """Writes down when contexts are kept off."""

    def __init__(self, makes: bool = True) -> None:
        self.said: list[str] = []
        self.makes = makes

    @contextmanager
    def without_contexts(self) -> Iterator[None]:
        self.said.append("kept off")
        self.makes = False
        yield
        self.said.append("let again")

    def contexts_are_made(self) -> bool:
        return self.makes


def test_contexts_are_kept_off_until_the_measurement_ends_once_they_disturb() -> None:
    asked: list[str] = []
    lock: Any = Lock()
    with Undisturbed(lock, "cuda:0", lambda device: not asked.append(device)) as off:
        assert not off.disturbed() and lock.said == [] and asked == ["cuda:0"]
    with Undisturbed(lock, "cuda:0", lambda device: False) as off:
        assert off.disturbed() and lock.said == ["kept off"]
        lock.makes = True
        assert not off.disturbed(), "what is kept off is not asked for again"
        off.keep()
    assert lock.said == ["kept off", "let again"]
    nobody: Any = Lock(makes=False)
    with Undisturbed(nobody, "cuda:0", lambda device: pytest.fail("asked")) as off:
        assert not off.disturbed()


def ran(
    monkeypatch: pytest.MonkeyPatch, lock: Any, names: str, *, quiet: bool = True, gaps: bool = False
) -> tuple[list[tuple[str, ...]], list[Runner], Any]:
    """What was said of contexts before each block of four rounds that count."""
    blocks: list[tuple[str, ...]] = []
    own: Any = bare()
    own._draw_ahead = lambda lock: None
    own.reference, own.rng, own.budget_s, own.beat = SimpleNamespace(device="cuda:0"), random.Random(3), 9.0, None
    own.clock, own.gaps = SimpleNamespace(mhz=lambda: 7, throttle_reasons=lambda: 0), gaps
    sides = [Runner(SimpleNamespace(name=name, warm=True), None, name == "A") for name in names]  # type: ignore[arg-type]

    def together(block: list[Runner]) -> None:
        blocks.append(tuple(lock.said))
        for side in block:
            for row in (side.samples_us, side.host_us, side.wall_us):
                row.append(float(len(blocks)))

    own._together, own._warm = together, lambda side: None
    own._enough = lambda sides, rival, elapsed_s: "enough" if len(sides[0].samples_us) == 8 else ""
    monkeypatch.setattr(measured, "quiet_and_alone", lambda lock, device: nullcontext(0.0))
    monkeypatch.setattr(measured, "Undisturbed", lambda *at: Undisturbed(*at, lambda device: quiet))
    return blocks, sides, own.run(sides, lock)


def test_sides_that_are_measured_by_turns_bear_contexts_in_the_making(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, sides, _ = ran(monkeypatch, lock := Lock(), "AB")
    assert blocks == [()] * 8 and lock.said == [] and len(sides[0].samples_us) == 8


def test_what_was_read_beside_contexts_that_disturb_is_read_again_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, sides, seen = ran(monkeypatch, lock := Lock(), "AB", quiet=False)
    assert blocks == [()] * 2 + [("kept off",)] * 8 and lock.said == ["kept off", "let again"]
    assert sides[0].samples_us == sides[1].samples_us == [float(n) for n in range(3, 11)]
    assert seen.clocks_mhz == [7] * 4, "of what was dropped no clock is kept"


def test_who_is_measured_alone_or_waits_for_its_launches_has_no_context_made_beside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks, *_ = ran(monkeypatch, Lock(), "A")
    assert blocks == [("kept off",)] * 8
    blocks, *_ = ran(monkeypatch, Lock(), "AB", gaps=True)
    assert blocks[measured.SETTLING - 1 :] == [("kept off",)] * 9
