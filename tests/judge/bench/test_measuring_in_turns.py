"""In which order sides are timed, and what content a burst is made of. No child, no clock: CPU tensors and fakes."""

from __future__ import annotations

import dataclasses
import random
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from judge.bench.device.gpu_lock import GpuLock
from judge.bench.exchange.arenas import Slot
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.nested import TensorMeta, ordered, packed
from judge.bench.judging.completion import Ended
from judge.bench.judging.precision import Allowed
from judge.bench.subjects.burst_calls import BurstCalls
from judge.bench.timing import bursts, measured
from judge.bench.timing.bursts import Bursts, _copy_all, draw_ahead
from judge.bench.timing.measured import Measurement, Runner
from judge.bench.timing.trusted import CPU, GPU
from judge.values import JudgeError, Verdict

LOCK = GpuLock(None)


def bare() -> Measurement:
    """One that was not begun, with nothing drawn ahead and nothing to check."""
    own = Measurement.__new__(Measurement)
    own._pairs, own._taken, own._taken_bytes = [], [], 0
    return own


# -- by turns --


def ran(monkeypatch, names: str, rounds: int, **given: object) -> tuple[list[object], object, list[Runner]]:
    """What a measurement of these sides did in how many rounds, one after the other."""
    did: list[object] = []
    sides = [Runner(SimpleNamespace(name=name, warm=False), None, name == "A") for name in names]

    @contextmanager
    def quiet(lock, device):
        assert lock is LOCK
        did.append(f"alone, quiet {device}")
        yield 0.25
        did.append("shared")

    def together(block):
        did.append("".join(side.contact.name for side in block))
        for side in sides:
            side.samples_us.append(float(len(did)))
            side.host_us.append(float(len(did)))

    def enough(found, rival, elapsed_s):
        assert (found, rival) == (sides, given.get("rival"))
        did.append(("enough", elapsed_s))
        return len([step for step in did if step == "clock"]) >= rounds

    times, clocks = iter([100.0, *(101.0 + n for n in range(99))]), iter(given.get("clocks", [7] * 99))
    monkeypatch.setattr(measured.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(measured, "quiet_and_alone", quiet)
    own = bare()
    own.reference, own.rng = SimpleNamespace(device="cuda:1"), random.Random(3)
    own._draw_ahead = lambda lock: did.append("drawn ahead")
    reasons = iter([1, 4, *[0] * 99])
    own.clock = SimpleNamespace(
        mhz=lambda: did.append("clock") or next(clocks), throttle_reasons=lambda: next(reasons)
    )  # fmt: skip
    own._warm = lambda side: did.append(f"warm {side.contact.name}")
    own._together, own._enough = together, enough
    seen = own.run(sides, LOCK, rival=given.get("rival"))
    monkeypatch.undo()
    return did, seen, sides


def test_everybody_is_warm_before_the_gpu_is_taken_and_it_is_quiet_before_the_first_pair(monkeypatch):
    did, seen, _ = ran(monkeypatch, "AB", 2, rival="the best")
    assert did[:4] == ["warm A", "warm B", "drawn ahead", "alone, quiet cuda:1"] and did[-1] == "shared"
    assert [step[1] for step in did if step[0] == "enough"] == [1.0, 2.0, 3.0], "from when it is quiet"
    assert (seen.waited_s, seen.throttled, seen.clocks_mhz, seen.dropped) == (0.25, 5, [7, 7], 0)


@pytest.mark.parametrize("names", ["AB", "ABC"])
def test_each_block_is_followed_by_its_mirror_and_nobody_is_always_first(monkeypatch, names):
    did, _, _ = ran(monkeypatch, names, 30)
    blocks = [step for step in did if isinstance(step, str) and sorted(step) == list(names)]
    assert len(blocks) == 60 and did.count("clock") == 30
    assert all(one == other[::-1] for one, other in zip(blocks[::2], blocks[1::2], strict=True))
    assert {block[0] for block in blocks[::2]} == set(names), "the first block of a round is a random one"


def gapped(
    host_us: float, *, us: float = 100.0, device: str = "cuda:0", rounds: int = 4, wall_us: float | None = None
) -> tuple[list[bool], Any]:
    """Whether gaps counted in each call of one side of two, and what the measurement found."""
    own = bare()
    own._draw_ahead = lambda lock: None
    own.reference, own.rng, own.budget_s, own.beat = SimpleNamespace(device=device), random.Random(3), 9.0, None
    own.clock = SimpleNamespace(mhz=lambda: 7, throttle_reasons=lambda: 0)
    sides = [Runner(SimpleNamespace(name=name, warm=True), None, name == "A") for name in "AB"]
    asked: list[bool] = []

    def together(block):
        asked.append(own.gaps)
        for side in block:
            side.samples_us.append((wall_us or host_us) if own.gaps else us)
            side.host_us.append(host_us if side is sides[1] else 1.0)
            side.wall_us.append(1.0)

    own._together, own._warm = together, lambda side: None
    own._enough = lambda sides, rival, elapsed_s: "enough" if len(sides[0].samples_us) == 2 * rounds else ""
    return asked, (own.run(sides, LOCK), sides, own)


def test_where_a_side_waits_for_its_launches_both_are_measured_anew_with_the_gaps_between_them(monkeypatch):
    monkeypatch.setattr(measured, "quiet_and_alone", lambda lock, device: nullcontext(0.0))
    asked, (seen, sides, own) = gapped(700.0)
    assert asked == [False] * measured.SCOUTED + [True] * (measured.SETTLING + 8)
    assert seen.gaps and own.gaps and seen.clocks_mhz == [7] * 4, "of what was dropped no clock is kept"
    assert [side.samples_us for side in sides] == [[700.0] * 8] * 2 and len(sides[0].wall_us) == 8
    own.run(sides, LOCK)
    assert asked[-measured.SETTLING - 8 :] == [True] * (measured.SETTLING + 8), "and so is whoever comes afterwards"


def test_who_only_says_that_launching_takes_long_does_not_choose_the_clock(monkeypatch):
    monkeypatch.setattr(measured, "quiet_and_alone", lambda lock, device: nullcontext(0.0))
    asked, (seen, sides, own) = gapped(700.0, wall_us=120.0)
    assert asked == [False] * measured.SCOUTED + [True] * (measured.SETTLING + 8) + [False] * 8
    assert not seen.gaps and not own.gaps and seen.clocks_mhz == [7] * 4
    assert [side.samples_us for side in sides] == [[100.0] * 8] * 2


@pytest.mark.parametrize(
    "calls",
    [{"host_us": 499.0}, {"host_us": 700.0, "us": 934.0}, {"host_us": 700.0, "device": "cpu"}],
    ids=["short", "works longer", "on the processor"],
)
def test_gaps_are_left_out_of_short_calls_and_of_those_that_work_longer(monkeypatch, calls):
    monkeypatch.setattr(measured, "quiet_and_alone", lambda lock, device: nullcontext(0.0))
    asked, (seen, _, own) = gapped(**calls)
    assert asked == [False] * 8 and not seen.gaps and not own.gaps


def test_rounds_at_another_clock_are_left_out_of_what_a_measurement_gives(monkeypatch):
    _, seen, sides = ran(monkeypatch, "AB", 5, clocks=[100, 100, 50, 100, 100])
    assert seen.dropped == 2 and [len(side.samples_us) for side in sides] == [8, 8]


class Numbered:
    """A reference whose inputs have numbers of their own, and whose answers are their negatives."""

    device = "cpu"

    def __init__(self, shape: tuple[int, ...] = (2,), **odd: object) -> None:
        self.shape, self.odd, self.drawn, self.first = shape, odd, 0, "first state"

    def inputs(self, family, seed):
        assert family == "given"
        self.drawn += 1
        return [torch.full(self.shape, float(self.drawn)), self.odd.get("beside", lambda n: 5)(self.drawn)]

    def outputs(self, inputs, seed, state):
        assert state is self.first
        return [-inputs[0] * self.odd.get("by_seed", lambda seed: 1)(seed)]


def test_sides_of_a_block_get_equal_content_and_the_next_block_gets_other(monkeypatch):
    own = bare()
    own.reference, asked = Numbered(), []
    own.state = own.reference.first

    def once(side, inputs, seed, right, drawn):
        asked.append((side, inputs, seed, right))
        return float(len(asked)), 10.0 * len(asked), 100.0 * len(asked)

    own._once = once
    one, other = Runner("one", None, True), Runner("other", None, False)
    own._together([one, other])
    own._together([other, one])
    assert [row[0] for row in asked] == [one, other, other, one]
    for first, second in (asked[:2], asked[2:]):
        assert first[1] is second[1] and first[2] == second[2] and torch.equal(first[3][0], -first[1][0])
    assert asked[0][2] != asked[2][2] and not torch.equal(asked[0][1][0], asked[2][1][0])
    assert (one.samples_us, one.host_us, one.wall_us) == ([1.0, 4.0], [10.0, 40.0], [100.0, 400.0])
    assert other.samples_us == [2.0, 3.0]


def test_first_calls_come_once_with_the_first_parameters_and_are_not_compared():
    own = Measurement.__new__(Measurement)
    own.reference, given, asked = Numbered(), [], []
    own.state = own.reference.first

    def give(contact, state, *, again):
        contact.held = state
        given.append((contact, state, again))

    side = Runner(SimpleNamespace(warm=False, held=None), SimpleNamespace(give=give), True)
    own._once = lambda side, inputs, seed, right: asked.append((inputs[0][0].item(), right))
    own._warm(side)
    own._warm(side)
    assert given == [(side.contact, "first state", False)] and side.contact.warm
    assert asked == [(1.0, None), (2.0, None), (3.0, None)]
    own.state = "other parameters"
    own._warm(side)
    assert given[1:] == [(side.contact, "other parameters", True)] and len(asked) == 3, (
        "it is warm, and gets what is new"
    )


def test_a_failure_while_timing_is_the_candidates_only_where_it_is_the_candidate():
    def failing(name: str):
        own = Measurement.__new__(Measurement)
        raises = SubjectFailed(name, "exception", "timed", "no")
        own._guarded(None, lambda side: (_ for _ in ()).throw(raises))

    with pytest.raises(Ended) as caught:
        failing("candidate")
    assert (caught.value.verdict, caught.value.stage) == (Verdict.CRASHED, "timing")
    with pytest.raises((JudgeError, SubjectFailed, Ended)) as other:
        failing("incumbent")
    assert isinstance(other.value, SubjectFailed), "the best so far is left out"


def test_content_of_the_first_pairs_is_drawn_before_the_gpu_is_taken_as_far_as_memory_goes(monkeypatch):
    own = bare()
    own.reference, passed = Numbered(), []
    own.state = own.reference.first
    lock: Any = SimpleNamespace(let_pass=lambda: passed.append(own.reference.drawn))
    own._draw_ahead(lock)
    assert own.reference.drawn == measured.AHEAD and passed == list(range(measured.AHEAD))
    own._once = lambda side, inputs, seed, right, drawn: (float(inputs[0][0]), float(right[0][0]), 1.0)
    side = Runner("one", None, True)
    for _ in range(measured.AHEAD + 1):
        own._together([side])
    assert own.reference.drawn == measured.AHEAD + 1, "then as they are needed"
    assert len(set(side.samples_us)) == measured.AHEAD + 1 and side.host_us == [-us for us in side.samples_us]
    monkeypatch.setattr(measured, "AHEAD_BYTES", 2 * torch.zeros(2).nbytes)
    own._draw_ahead(lock)
    assert len(own._pairs) == 2
    for name in ("lean", "by_chance"):
        other = bare()
        setattr(other, name, True)
        other._draw_ahead(lock)
        assert not other._pairs, "memory is short, or contents are asked again"


# -- how long a burst may be --


def bursts_of(reference: Numbered, terms=CPU, *, in_place: bool = True, contact: object = None, blame: bool = True):
    arena = SimpleNamespace(shared_in_place=in_place)
    side = Runner(contact or SimpleNamespace(arena=arena), None, blame)
    checked: list[object] = []
    own = Measurement.__new__(Measurement)
    own.reference, own.state, own.checked, own.ahead = reference, reference.first, checked, []
    own.check_later = lambda side, outs, right, drawn: checked.append((side, outs, right))
    return Bursts(own, side, random.Random(5), terms)


@pytest.mark.parametrize(
    ("terms", "claimed_us", "calls"),
    [(CPU, 500.0, 4), (CPU, 1e9, 2), (CPU, 1.0, 6), (GPU, 100.0, 30), (GPU, 1e9, 8), (GPU, 1.0, 96)],
)
def test_a_long_burst_takes_its_time_within_limits(terms, claimed_us, calls):
    assert bursts_of(Numbered(), terms).room(claimed_us) == calls


def test_inputs_and_outputs_of_all_calls_must_fit():
    each = 2 * TensorMeta.of(torch.zeros(2)).nbytes
    for memory, calls in ((5 * each, 5), (5 * each - 1, 4), (2 * each, 2), (2 * each - 1, None)):
        assert bursts_of(Numbered(), dataclasses.replace(GPU, memory=memory)).room(1.0) == calls


def test_what_is_free_now_limits_a_burst_too(monkeypatch):
    each, reference = 2 * TensorMeta.of(torch.zeros(2)).nbytes, Numbered()
    reference.device = "cuda:0"
    for share, calls in ((10 * each, 10), (4 * each, 4), (1 << 40, 96)):
        monkeypatch.setattr(bursts, "free_bytes", lambda device, share=share: bursts.COPIES * share)
        assert bursts_of(reference, GPU).room(1.0) == calls
    monkeypatch.setattr(bursts, "free_bytes", lambda device: bursts.COPIES * 3 * each)
    with pytest.raises(JudgeError, match="3 calls fit, 96 are wanted"):
        bursts_of(reference, GPU).room(1.0)


def test_random_answers_and_changing_numbers_beside_the_tensors_have_no_burst():
    assert bursts_of(Numbered(by_seed=lambda seed: 1 + seed % 997)).room(1.0) is None
    assert bursts_of(Numbered(by_seed=lambda seed: float("nan"))).room(1.0) == 6, "no number is no sign of chance"
    assert bursts_of(Numbered(beside=lambda n: n)).room(1.0) is None


def test_content_that_goes_through_the_host_is_little_but_for_a_processor():
    few, many = dataclasses.replace(GPU, memory=1000), dataclasses.replace(GPU, memory=1 << 40)
    for device, in_place, least in (("cuda:0", False, 256 << 20), ("cuda:0", True, 1 << 40), ("cpu", False, 1 << 40)):
        reference = Numbered()
        reference.device = device
        assert bursts_of(reference, many, in_place=in_place)._allowed() == least
        assert bursts_of(reference, few, in_place=in_place)._allowed() == 1000


def test_content_is_drawn_ahead_for_all_that_bursts_need_and_used_before_any_other(monkeypatch):
    reference = Numbered()
    one = bursts_of(reference)
    needed = 2 * (6 + CPU.least * (6 + 1))  # both sides: what they are announced with, then a long and a short burst
    draw_ahead(one.measurement, 1.0)
    assert reference.drawn == len(one.measurement.ahead) == needed
    assert one.room(1.0) == 6 and reference.drawn == needed
    draw_ahead(one.measurement, 1.0)
    assert len(one.measurement.ahead) == needed, "only what is missing is drawn"
    drawn = reference.drawn
    for _ in range(needed + 1):
        one._content()
    assert reference.drawn == drawn + 1
    each = 2 * torch.zeros(2).nbytes
    monkeypatch.setattr(bursts, "AHEAD_BYTES", 3 * each)
    draw_ahead(one.measurement, 1.0)
    assert len(one.measurement.ahead) == 4, "as far as memory goes"


def test_answers_of_bursts_are_taken_at_once_and_checked_later_and_none_is_forgotten(monkeypatch):
    own = Measurement.__new__(Measurement)
    own.limits, own._taken, own._taken_bytes = [Allowed(1e-6, 1e-6)], [], 0
    own.reference = SimpleNamespace(gradients=SimpleNamespace(title=lambda number: f"output {number}"))
    place = torch.ones(4)
    side = Runner(SimpleNamespace(take=lambda outs: [place.clone()]), None, True)
    own.check_later(side, [], [torch.ones(4)], measured.NOT_DRAWN)
    own.check_taken()
    place[2] = 7.0
    own.check_later(side, [], [torch.ones(4)], measured.NOT_DRAWN)
    place[2] = 1.0  # whatever happens to the place afterwards
    own.check_later(side, [], [torch.ones(4)], measured.NOT_DRAWN)
    with pytest.raises(Ended) as caught:
        own.check_taken()
    assert caught.value.reason == "time.wrong_output"
    own.check_taken()
    place[2] = 7.0
    monkeypatch.setattr(measured, "TAKEN_BYTES", 2 * place.nbytes - 1)
    with pytest.raises(Ended):
        own.check_later(side, [], [torch.ones(4)], measured.NOT_DRAWN)


# -- what a burst is made of --


class Place:
    """A slot: where a tensor lies."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def to_json(self):
        return {"at": id(self)}


class Subject:
    """Keeps what lay in its places whenever it was asked something."""

    def __init__(self) -> None:
        self.arena = SimpleNamespace(view=lambda slot: slot.tensor, shared_in_place=True)
        self.asked: list[tuple[str, list[float]]] = []
        self.ins: list[Place] = []
        self.jitters: list[int] = []

    def make_arena(self, metas, others):
        self.opened = metas, others

    def lay_out(self, tensors, metas, jitter):
        self.jitters.append(jitter)
        self.ins = [Place(tensor.clone()) for tensor in tensors]
        self.outs = [Place(torch.zeros(meta.shape)) for meta in metas]
        return list(self.ins), list(self.outs)

    def ask(self, op, **fields):
        self.asked.append((op.op, [slot.tensor[0].item() for slot in self.ins]))
        self.fields = fields or self.fields


def test_memory_is_shared_for_the_content_of_every_call():
    subject = Subject()
    bursts_of(Numbered((3, 4)), contact=subject).open(5)
    metas, others = subject.opened
    assert metas == [TensorMeta.of(torch.zeros(3, 4))] * 10 and others == []


def test_a_call_is_announced_with_its_own_places_and_seed():
    subject, reference = Subject(), Numbered()
    one = bursts_of(reference, contact=subject)
    one._stale = [one._content()]
    stale = one._stale[0]
    laid = one._lay(3)
    assert one._stale[0] is stale and len(one._stale) == 3 == reference.drawn, "what was seen before is used again"
    assert [(mine, theirs) for mine, theirs in laid] == [
        ([mine], [theirs]) for mine, theirs in zip(subject.ins, subject.outs, strict=True)
    ]
    assert subject.asked == [("burst_ready", [1.0, 2.0, 3.0])]
    calls = subject.fields["calls"]
    assert [row["slots"] for row in calls] == [[slot.to_json()] for slot in subject.ins]
    assert [row["out"] for row in calls] == [[slot.to_json()] for slot in subject.outs]
    assert [row["seed"] for row in calls] == [seed for _, _, seed, _ in one._stale]
    one._lay(2)
    assert reference.drawn == 3 and subject.asked[-1] == ("burst_ready", [1.0, 2.0])
    assert len(set(subject.jitters)) == 2, "each time at another address"


@pytest.mark.parametrize("graph", [False, True])
def test_a_burst_computes_what_came_after_it_was_announced_and_each_answer_is_checked(graph):
    subject = Subject()
    one = bursts_of(Numbered(), contact=subject)
    one.burst(2, graph=graph)
    one.burst(2, graph=graph)
    captured = lambda laid: [("burst_capture", laid)] if graph else []  # noqa: E731
    assert subject.asked == [
        ("burst_ready", [3.0, 4.0]), *captured([3.0, 4.0]), ("burst", [1.0, 2.0]),
        ("burst_ready", [3.0, 4.0]), *captured([3.0, 4.0]), ("burst", [5.0, 6.0]),
    ]  # fmt: skip
    assert [right[0][0].item() for _, _, right in one.measurement.checked] == [-1.0, -2.0, -5.0, -6.0]
    assert [outs for _, outs, _ in one.measurement.checked[2:]] == [[place] for place in subject.outs]
    assert len(one.seen[2]) == 2
    eager = bursts_of(Numbered(), contact=Subject(), blame=False)
    eager.burst(1, graph=graph)
    assert eager.measurement.checked == [], "nobody doubts the baseline"


def test_content_of_many_kinds_comes_into_place_with_one_launch_a_kind(monkeypatch):
    launches, copy = [], torch._foreach_copy_
    monkeypatch.setattr(
        torch, "_foreach_copy_", lambda places, given: launches.append(len(given)) or copy(places, given)
    )
    given = [torch.full((2,), n, dtype=kind) for n, kind in enumerate([torch.float32, torch.int64] * 2, 1)]
    places = [torch.zeros_like(tensor) for tensor in given]
    _copy_all(places, given)
    assert [place.tolist() for place in places] == [[n, n] for n in range(1, 5)]
    assert launches == [2, 2]


# -- the subject's side of it --


def test_outputs_of_a_burst_are_stored_in_the_order_in_which_their_places_were_laid():
    """A dict is laid out by its keys, in whatever order the model fills it; None takes no place, a number one."""

    def model(x):
        return {"whole": x * 2, "none": None, "mean": x.mean(), "pair": (x[:1], None)}

    x, stored = torch.arange(333.0), {}
    row = {
        "out": [Slot(at, TensorMeta.of(t)).to_json() for at, t in enumerate(packed(ordered(model(x)))[1])],
        "seed": 1,
    }
    calls = BurstCalls("cpu", lambda command: [x], lambda model, args: model(*args))
    calls.ready({"calls": [row]})
    calls.burst(model, SimpleNamespace(put=lambda slot, tensor: stored.update({slot.offset: tensor})))
    assert [tuple(stored[number].shape) for number in range(3)] == [(), (1,), (333,)]
    assert torch.equal(stored[2], x * 2) and stored[0] == x.mean()
