"""When a measurement ends, what a claimed time must agree with, and which time is shown. No clock runs here."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch

from judge.bench.exchange.claims import Timed
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.rows import Described
from judge.bench.judging.asked_gradients import Asked
from judge.bench.judging.completion import Ended
from judge.bench.judging.precision import Allowed
from judge.bench.timing import bursts, measured, stage, trusted
from judge.bench.timing.bursts import Burst, Bursts, _supported, trusted_time
from judge.bench.timing.circumstances import Circumstances
from judge.bench.timing.enough import AGAIN, BELOW, MEETS, NO_WIN, TIME
from judge.bench.timing.fresh_draws import NO_DRAW
from judge.bench.timing.measured import Measurement, Runner, _drop
from judge.bench.timing.stage import Measured, TimingStage
from judge.bench.timing.trusted import CPU, GPU, Trusted, terms_of
from judge.values import (
    BASELINES,
    DEFAULT_POLICY,
    Basis,
    Finding,
    JudgeError,
    SpeedCall,
    Speedup,
    Subject,
    Timing,
    Verdict,
)

COMPILE, AUTOTUNE = BASELINES["compile"], BASELINES["autotune"]


def runner(*samples_us: float, blame: bool = False) -> Runner:
    return Runner(None, None, blame, samples_us=list(samples_us))


def measurement(**given: object) -> Measurement:
    """One that was not begun: only what it decides by is there."""
    bare = Measurement.__new__(Measurement)
    fresh: dict[str, object] = {"_pairs": [], "_taken": [], "_taken_bytes": 0}
    vars(bare).update({"budget_s": 8.0, "beat": None, "state": "first"} | fresh | given)
    return bare


# -- when the pairs are enough --


def test_a_measurement_asks_of_its_sides_in_their_places():
    mine, eager, rival = runner(*[10.0] * 10), runner(*[20.0] * 10), runner(*[9.0] * 10)
    assert measurement()._enough([mine, eager, rival], rival, 0.0) == NO_WIN
    assert measurement(beat=3.0)._enough([mine, eager], None, 0.0) == BELOW
    assert measurement(beat=1.5, screening=True)._enough([mine, eager], None, 0.0) == MEETS
    assert measurement(beat=1.5)._enough([mine, eager], None, 0.0) == ""
    assert measurement()._enough([mine], None, 8.0) == TIME and not measurement()._enough([mine], None, 7.9)


def test_blocks_at_another_clock_leave_every_side_with_the_same_pairs():
    one, other = runner(*map(float, range(1, 11))), runner(*map(float, range(11, 21)))
    for side in (one, other):
        side.host_us = [-value for value in side.samples_us]
    seen = Circumstances(clocks_mhz=[100, 100, 50, 100, 100])
    _drop([one, other], seen)
    assert one.samples_us == [1.0, 2.0, 3.0, 4.0, 7.0, 8.0, 9.0, 10.0] and seen.dropped == 2
    assert other.samples_us == [value + 10 for value in one.samples_us]
    assert one.host_us == [-value for value in one.samples_us]


# -- one timed call --


class Contact:
    """Answers a timed call with this claim."""

    name = "eager"

    def __init__(
        self,
        us: float,
        outputs: list[torch.Tensor] | None = None,
        metas: list[dict] | None = None,
        shared: list[int] | None = None,
        host_us: float = 2.5,
    ) -> None:
        template = {"list": [{"t": number} for number, _ in enumerate(metas or [])]}
        described = tuple(map(Described.read, metas or []))
        self.reply = Timed("", template, described, True, kept=tuple(shared or ()), us=us, host_us=host_us)
        self.outputs = outputs or []
        self.asked: list[tuple[str, dict]] = []

    def lay_out(self, tensors, metas, jitter):
        self.metas = metas
        return [], [SimpleNamespace(meta=meta, to_json=dict) for meta in metas]

    def ask(self, op, **fields):
        self.asked.append((op.op, fields))
        return self.reply

    def take(self, outs):
        return self.outputs


def once(monkeypatch, us: float, wall_us: float, *, blame: bool = True, right=None, kept=None, **contact: object):
    ticks = iter([0, int(wall_us * 1e3)])
    monkeypatch.setattr(measured.time, "perf_counter_ns", lambda: next(ticks))
    side = Runner(Contact(us, **contact), None, blame)
    own = measurement(rng=random.Random(1), limits=[Allowed(0.01, 0.1)])
    own.reference = SimpleNamespace(
        outputs=lambda inputs, seed, state: [torch.zeros(3)], kept=kept or set(), gradients=Asked(DEFAULT_POLICY, None)
    )
    found = own._once(side, [torch.ones(2)], 7, right), side
    own.check_taken()
    return found


@pytest.mark.parametrize(
    ("us", "wall_us", "believed"),
    [(1e-3, 10.0, True), (0.9e-3, 10.0, False), (60.5, 10.0, True), (60.6, 10.0, False), (-1.0, 10.0, False)],
)
def test_a_claim_must_be_a_time_and_no_longer_than_the_call(monkeypatch, us, wall_us, believed):
    if believed:
        (claimed, host, wall), side = once(monkeypatch, us, wall_us, host_us=wall_us + 5)
        assert (claimed, host, wall) == (us, wall_us, wall_us), "no launch takes longer than the referee waited"
        assert once(monkeypatch, us, wall_us, host_us=2.5)[0][1] == 2.5
        assert side.contact.asked[0][0] == "timed" and side.contact.asked[0][1]["flush"] is True
        assert side.contact.asked[0][1]["seed"] == 7 and side.contact.metas[0].shape == (3,)
        return
    with pytest.raises(Ended) as caught:
        once(monkeypatch, us, wall_us)
    assert (caught.value.verdict, caught.value.stage) == (Verdict.SUSPECT, "timing")
    assert caught.value.reason == "time.mismatch"
    with pytest.raises(SubjectFailed) as odd:
        once(monkeypatch, us, wall_us, blame=False)
    assert odd.value.kind == "garbage", "a baseline's problem, or the best so far, is told apart by its name"


def test_an_output_of_a_timed_call_is_new_memory_unless_the_reference_keeps_its_own_too(monkeypatch):
    with pytest.raises(Ended) as caught:
        once(monkeypatch, 1.0, 10.0, shared=[1])
    assert (caught.value.verdict, caught.value.reason) == (Verdict.STATE_VIOLATION, "state.kept_output")
    assert caught.value.stage == "timing" and "output 1" in caught.value.message
    once(monkeypatch, 1.0, 10.0, shared=[1], kept={1})
    once(monkeypatch, 1.0, 10.0, shared=[1], blame=False)


GOOD = {"dtype": "float32", "shape": [4]}


@pytest.mark.parametrize(
    ("value", "metas", "right"),
    [
        ([1.0, 2.0, 3.0, 4.01], [GOOD], True),
        ([1.0, 2.0, 3.0, 4.3], [GOOD], False),
        ([1.0, 2.0, 3.0, 4.0], [{**GOOD, "shape": [2, 2]}], False),
        ([1.0, 2.0, 3.0, 4.0], [], False),
    ],
)
def test_every_timed_output_is_compared(monkeypatch, value, metas, right):
    given = {"outputs": [torch.tensor(value)], "metas": metas, "right": [torch.tensor([1.0, 2.0, 3.0, 4.0])]}
    once(monkeypatch, 5.0, 10.0, blame=False, **given)
    if right:
        once(monkeypatch, 5.0, 10.0, **given)
        return
    with pytest.raises(Ended) as caught:
        once(monkeypatch, 5.0, 10.0, **given)
    assert (caught.value.verdict, caught.value.reason) == (Verdict.WRONG, "time.wrong_output")
    assert caught.value.message.startswith("output 0 of a timed call")


def test_four_times_the_error_of_the_rounds_is_still_the_same_work(monkeypatch):
    spread = torch.tensor([1.0, 2.0, 3.0, 4.0]).std(correction=0)
    for factor, right in ((3.9, True), (4.1, False)):
        off = torch.tensor([1.0, 2.0, 3.0, 4.0]) + 0.01 * factor * spread
        own = measurement(limits=[Allowed(0.01, 0.1)])
        own.reference = SimpleNamespace(gradients=Asked(DEFAULT_POLICY, None))
        side = SimpleNamespace(contact=SimpleNamespace(take=lambda outs, off=off: [off]), limits=None)
        step = lambda own=own, side=side: own.check_values(side, [], [torch.tensor([1.0, 2.0, 3.0, 4.0])])  # noqa: E731
        if right:
            step()
        else:
            with pytest.raises(Ended):
                step()


# -- the judge's own clock --


def test_draws_that_are_none_over_all_calls_are_a_wrong_output():
    reference = SimpleNamespace(gradients=SimpleNamespace(title=lambda number: f"output {number}"))
    draws = {0: SimpleNamespace(calls=24, verdict=str), 1: SimpleNamespace(calls=24, verdict=lambda: NO_DRAW)}
    with pytest.raises(Ended) as caught:
        measurement(reference=reference, _draws=draws).check_draws()
    assert (caught.value.verdict, caught.value.reason) == (Verdict.WRONG, "time.wrong_output")
    assert caught.value.message.startswith("output 1 ") and f"over 24 calls: {NO_DRAW}" in caught.value.message
    measurement(reference=reference, _draws={0: draws[0]}).check_draws()
    measurement(reference=reference, _draws=None).check_draws()


def test_a_claim_is_believed_down_to_its_share_of_the_trusted_time():
    terms = dataclasses.replace(GPU, nothing_us=2.0)
    assert terms.believes(86.0, 100.0) and not terms.believes(85.9, 100.0)
    assert CPU.believes(50.0, 100.0) and not CPU.believes(49.9, 100.0)
    assert terms_of("cpu") is CPU


def test_a_baseline_is_disturbed_when_the_pairs_took_half_as_long_again():
    trusted = Trusted(1.0, "burst", 8, baseline_us=100.0)
    assert trusted.disturbed(155.1) and not trusted.disturbed(155.0)


def test_content_that_comes_late_counts_as_work():
    assert Burst(100.0, 5.0).delay_us(90.0) == pytest.approx(100.0 - 1.02 * 90.0 - 5.0)
    assert Burst(96.0, 5.0).delay_us(90.0) == 0.0
    bare = SimpleNamespace(
        seen={2: [Burst(10.0, 50.0), Burst(10.0, 40.0)], 10: [Burst(60.0, 200.0), Burst(30.0, 260.0)]}
    )
    delay = 60.0 - 1.02 * 20.0 - 5.0
    assert Bursts.slope(bare, {10: 20.0, 2: 10.0}) == pytest.approx((200.0 + delay - 40.0) / 8)
    assert Bursts.slope(SimpleNamespace(seen={1: [Burst(1.0, 9.0)], 2: [Burst(1.0, 3.0)]}), {1: 1.0, 2: 1.0}) == 0.0


def test_what_a_burst_may_cost_beside_its_calls():
    meta = SimpleNamespace(nbytes=200_000)
    assert Bursts.dearest_us(SimpleNamespace(terms=GPU, _outputs=[meta, meta])) == pytest.approx(20.0 + 4.0)


def test_calls_whose_launches_take_longer_than_their_kernels_are_replayed():
    side = runner(9.0, 10.0, 11.0)
    for host_us, bound in (([7.5, 7.5, 99.0], False), ([7.6, 7.6, 0.0], True), ([], False)):
        side.host_us = host_us
        assert side.launch_bound is bound


class Side:
    """A subject whose bursts take what the script says per call; a script's last time is repeated."""

    def __init__(self, *call_us: float, device: str = "cuda:0", cost_us: float = 0.0) -> None:
        self.call_us, self.cost_us = list(call_us), cost_us
        self.reference = SimpleNamespace(device=device)
        self.side = SimpleNamespace(samples_us=[100.0], host_us=[0.0])
        self.rng = random.Random(1)
        self.seen: dict[int, list[Burst]] = defaultdict(list)
        self.made: list[tuple[int, bool]] = []

    def burst(self, calls: int, *, graph: bool) -> None:
        self.made.append((calls, graph))
        self.seen[calls].append(Burst(1.0, 1.0))

    def slope(self, copying: dict[int, float]) -> float:
        assert sorted(copying) == [2, 8]
        return self.call_us.pop(0) if len(self.call_us) > 1 else self.call_us[0]

    def dearest_us(self) -> float:
        return 20.0

    def written_us(self, method: str) -> float:
        return self.cost_us


@pytest.fixture
def quiet(monkeypatch):
    """Whether the GPU is quiet; how often somebody waited for that."""
    state = SimpleNamespace(quiet=True, waits=0)
    monkeypatch.setattr(bursts, "is_quiet", lambda device: state.quiet)
    monkeypatch.setattr(bursts.time, "sleep", lambda seconds: None)

    def wait(device):
        state.waits += 1
        return 6.0

    monkeypatch.setattr(bursts, "wait_until_quiet", wait)
    return state


def supported(mine: Side, theirs: Side, claimed_us: float, terms=GPU, method: str = "burst") -> Trusted:
    return _supported([mine, theirs], 8, method, claimed_us, terms)


def test_a_claim_that_bursts_support_is_believed_after_the_least_attempts(quiet):
    mine, theirs = Side(100.0), Side(100.0)
    found = supported(mine, theirs, 90.0)
    assert found.supported and (found.attempts, found.call_us, found.baseline_us) == (3, 100.0, 100.0)
    assert (found.method, found.calls, found.beside_us) == ("burst", 8, 0.0)
    assert len(mine.made) == len(theirs.made) == 6 and {graph for _, graph in mine.made} == {False}
    assert supported(Side(100.0), Side(100.0), 90.0, method="graph_burst").method == "graph_burst"


def test_a_claim_of_a_millisecond_needs_two_attempts_where_no_other_process_is_in_the_way(quiet):
    assert supported(Side(1000.0), Side(1000.0), 1000.0).attempts == 2
    assert supported(Side(999.0), Side(999.0), 999.0).attempts == 3
    assert supported(Side(5000.0), Side(5000.0), 5000.0, CPU).attempts == CPU.least


def test_what_the_baseline_shows_of_a_burst_is_taken_off_within_limits(quiet):
    assert supported(Side(110.0), Side(112.0), 85.0).beside_us == 12.0
    assert supported(Side(110.0), Side(150.0), 85.0).beside_us == 20.0, "no more than a burst may cost"
    assert supported(Side(110.0), Side(90.0), 110.0).beside_us == 0.0
    assert supported(Side(110.0, cost_us=5.0), Side(90.0), 110.0).beside_us == 5.0, "it costs that at least"
    assert supported(Side(3.0, cost_us=5.0), Side(90.0), 110.0).call_us == 0.0
    clocked = dataclasses.replace(GPU, nothing_us=3.0)
    assert supported(Side(110.0), Side(100.0), 110.0, clocked).beside_us == 3.0, "a clock reads a call around nothing"


def test_a_busy_machine_gets_more_attempts(quiet):
    found = supported(Side(*[200.0] * 9, 100.0), Side(100.0), 90.0)
    assert found.supported and found.attempts == 10 and quiet.waits == 2, "after six the pauses begin, for ten seconds"


def test_a_hopeless_claim_gets_ten(quiet):
    found = supported(Side(200.0), Side(100.0), 84.0)
    assert not found.supported and found.attempts == 10
    assert supported(Side(200.0), Side(100.0), 86.0).attempts == 48, "one that is nearly right gets them all"


def test_on_the_processor_nobody_waits_for_quiet(quiet):
    mine, theirs = Side(200.0, device="cpu"), Side(100.0, device="cpu")
    assert not supported(mine, theirs, 10.0, CPU).supported and quiet.waits == 0


def test_without_quiet_no_claim_is_refused(quiet):
    quiet.quiet = False
    with pytest.raises(JudgeError, match=r"the GPU was not quiet for 12 s"):
        supported(Side(200.0), Side(100.0), 84.0)
    assert supported(Side(100.0), Side(100.0), 90.0).supported


def read_by(
    monkeypatch,
    *,
    calls: int | None = 8,
    device: str = "cuda:0",
    bound: bool = True,
    kind: str = "",
    gaps: bool = False,
) -> tuple[object, list[str]]:
    methods: list[str] = []

    class Fake:
        def __init__(self, measurement, side, rng, terms) -> None:
            self.side = side

        def room(self, claimed_us):
            return calls

    def told(sides, calls, method, claimed_us, terms):
        methods.append(method)
        if kind and method == "graph_burst":
            raise SubjectFailed("candidate", kind, "burst_capture", "")
        return Trusted(1.0, method, calls)

    monkeypatch.setattr(bursts, "Bursts", Fake)
    monkeypatch.setattr(bursts, "terms_of", lambda device: GPU)
    monkeypatch.setattr(bursts, "_open", lambda sides, calls: None)
    monkeypatch.setattr(bursts, "_supported", told)
    eager, mine = runner(10.0), runner(10.0)
    eager.host_us, mine.host_us = [99.0 if bound else 0.0], [0.0]
    own = SimpleNamespace(reference=SimpleNamespace(device=device), gaps=gaps)
    return trusted_time(own, mine, eager, random.Random(1), claimed_us=5.0), methods


def test_calls_are_replayed_where_a_launch_takes_longer_and_back_to_back_elsewhere(monkeypatch):
    assert read_by(monkeypatch) == (Trusted(1.0, "graph_burst", 8), ["graph_burst"])
    assert read_by(monkeypatch, bound=False)[1] == ["burst"] == read_by(monkeypatch, device="cpu")[1]
    assert read_by(monkeypatch, gaps=True)[1] == ["burst"], "a claim that holds gaps is checked with them"
    assert read_by(monkeypatch, calls=None) == (None, [])
    assert read_by(monkeypatch, kind="exception") == (Trusted(1.0, "burst", 8), ["graph_burst", "burst"])
    with pytest.raises(SubjectFailed):
        read_by(monkeypatch, kind="died")


# -- the stage --


def timing(subject: Subject, us: float = 10.0) -> Timing:
    return Timing(subject, Basis.MEASURED, "cuda_events", (us,) * 4, us, 0.9 * us, 1.1 * us)


def ratio(value: float, low: float, call: SpeedCall, over: Subject = Subject.INCUMBENT) -> Speedup:
    return Speedup(value, low, value + 0.1, 16, Basis.MEASURED, over, call)


def shown(us: float = 10.0, **given: object) -> Measured:
    return Measured([timing(Subject.CANDIDATE, us)], ratio(2.0, 1.9, SpeedCall.FASTER, Subject.EAGER), **given)


def test_who_beats_the_best_so_far_and_who_does_narrowly():
    assert shown().beats_rival and not shown().wins_narrowly
    for low, call, beats, narrowly in (
        (1.049, SpeedCall.FASTER, True, True),
        (1.05, SpeedCall.FASTER, True, False),
        (1.0, SpeedCall.SAME, False, False),
        (0.9, SpeedCall.AMBIGUOUS, False, False),
    ):
        found = shown(rival=ratio(1.1, low, call))
        assert (found.beats_rival, found.wins_narrowly) == (beats, narrowly)


class Stage(TimingStage):
    """A stage whose sides and measurements are given."""

    def __init__(
        self, device: str = "cuda:0", trusted: tuple[Trusted | None, ...] = (), **sides: dict[str, list[float]]
    ) -> None:
        self.device, self.method, self.precision = device, "cuda_events", "strict"
        self._sides = {name: SimpleNamespace(**rows) for name, rows in sides.items()}
        self.trusted, self.again = list(trusted), []

    def _trusted(self, claimed_us: float) -> Trusted | None:
        return self.trusted.pop(0)

    def measure(self, *, suffix: str = "", rival: bool = False) -> Measured:
        self.again.append((suffix, rival))
        return shown(20.0 + len(self.again), rival=ratio(1.2, 1.1, SpeedCall.FASTER) if rival else None)


def unchecked(claimed_us: float, *, mine: float, device: str = "cuda:0", host_us: float = 0.0) -> Measured:
    """Single calls of the candidate took `mine`, of a baseline of 100 us 150 by the wall."""
    rows = {"wall_us": [150.0, 190.0], "samples_us": [100.0, 120.0], "host_us": [0.0]}
    own = Stage(device, candidate={"wall_us": [mine, mine + 9], "host_us": [host_us]}, eager=rows)
    found = shown()
    own._without_bursts(found, claimed_us)
    return found


@pytest.mark.parametrize(
    ("device", "claimed_us", "plausible"),
    [("cuda:0", 30.0, True), ("cuda:0", 29.9, False), ("cpu", 1.0, True)],  # 100 us by the wall; 30 + 15 us of slack
)
def test_single_calls_bound_a_claim_that_no_burst_can_check(device, claimed_us, plausible):
    found = unchecked(claimed_us, mine=150.0, device=device, host_us=50.0)
    assert found.plausible is plausible
    (note,) = found.findings
    assert note.code == "time.unchecked" and note.data == {"wall_us": 100.0, "claimed_us": claimed_us}
    assert note.message.endswith("are claimed" if plausible else "are claimed: too far apart for a best")
    assert f"may take up to 100 µs, {claimed_us:.1f} are claimed" in note.message


def test_a_claim_that_not_even_a_slow_launch_explains_is_a_mismatch():
    with pytest.raises(Ended) as caught:
        unchecked(29.9, mine=150.0)
    assert (caught.value.verdict, caught.value.reason) == (Verdict.SUSPECT, "time.mismatch")
    assert unchecked(29.9, mine=150.0, host_us=0.2).plausible is False
    assert unchecked(5.0, mine=20.0).findings[0].message.count("up to 0 µs") == 1, "no negative time is told"


EAGER = {"samples_us": [100.0], "host_us": [0.0]}


def test_a_supported_claim_is_a_finding_with_its_numbers():
    trusted = Trusted(9.5, "graph_burst", 96, beside_us=1.0, attempts=3, baseline_us=100.0)
    found = Stage(trusted=[trusted], eager=EAGER).trust(shown())
    (note,) = found.findings
    assert note.code == "time.trusted" and note.data == {**dataclasses.asdict(trusted), "claimed_us": 10.0}
    assert note.message == (
        "96 calls on different content took 9.5 µs each by the judge's own clock (CUDA graph, L2 not flushed); "
        "claimed 10.0 µs"
    )
    back = Stage(trusted=[Trusted(9.5, "burst", 4, baseline_us=100.0)], eager=EAGER).trust(shown())
    assert "(back to back, L2" in back.findings[0].message


@pytest.mark.parametrize(("method", "words"), [("burst", "calls back to back"), ("graph_burst", "calls replayed")])
def test_a_claim_that_no_burst_supports_is_a_mismatch(method, words):
    with pytest.raises(Ended) as caught:
        Stage(trusted=[Trusted(30.0, method, 8, supported=False)], eager=EAGER).trust(shown())
    assert (caught.value.verdict, caught.value.stage) == (Verdict.SUSPECT, "timing")
    assert caught.value.reason == "time.mismatch"
    assert "claimed to take 10.0 µs" in caught.value.message and f"each of 8 {words}" in caught.value.message


@pytest.mark.parametrize("tries", [2, 3])
def test_a_claim_that_a_crowd_may_explain_is_measured_again_before_it_is_suspect(tries):
    missed, fine = Trusted(12.9, "graph_burst", 96, supported=False), Trusted(9.0, "graph_burst", 96, baseline_us=100.0)
    misses = (missed, dataclasses.replace(missed, call_us=23.9))[: tries - 1]
    own = Stage(trusted=(*misses, fine), eager=EAGER)
    own.measure = lambda **given: own.again.append(given) or shown(21.0)
    found = own.trust(shown(), suffix="#2")
    assert own.again == [{"suffix": "#2", "rival": False}] * (tries - 1) and found.candidate.median_us == 21.0
    lasting = Stage(trusted=[dataclasses.replace(missed, call_us=20.0 + n) for n in (-7, 4, 5)], eager=EAGER)
    with pytest.raises(Ended) as caught:
        lasting.trust(shown())
    assert caught.value.reason == "time.mismatch" and len(lasting.again) == 2, "no crowd lasts for three measurements"


@pytest.mark.parametrize(
    ("claimed_us", "call_us", "narrowly"),
    [(4.0, 7.0, True), (4.0, 7.1, False), (100.0, 150.0, True), (100.0, 151.0, False)],
)
def test_a_claim_is_narrowly_missed_by_microseconds_or_by_half(claimed_us, call_us, narrowly):
    assert Trusted(call_us, "burst", 8, supported=False).narrowly_missed(claimed_us) is narrowly


def test_what_a_busy_machine_held_up_is_measured_again_with_the_other_baselines_times():
    slow, fine = Trusted(9.0, "burst", 8, baseline_us=50.0), Trusted(9.0, "burst", 8, baseline_us=100.0)
    own = Stage(trusted=[slow, fine], eager=EAGER)
    first = shown(rival=ratio(1.2, 1.1, SpeedCall.FASTER))
    first.timings += [timing(Subject.COMPILE, 50.0), timing(Subject.AUTOTUNE, 40.0)]
    first.over_others = {"compile": ratio(9.0, 8.0, SpeedCall.NONE), "autotune": ratio(9.0, 8.0, SpeedCall.NONE)}
    found = own.trust(first, suffix="#2")
    assert own.again == [("#2", True)] and found.candidate.median_us == 21.0
    assert [one.subject for one in found.timings] == [Subject.CANDIDATE, Subject.COMPILE, Subject.AUTOTUNE]
    assert {name: round(one.value, 3) for name, one in found.over_others.items()} == {
        "compile": round(50 / 21, 3), "autotune": round(40 / 21, 3),
    }  # fmt: skip
    with pytest.raises(JudgeError, match=r"3 times over .* 100.0 µs beside the candidate, 50.0 µs at most in bursts"):
        Stage(trusted=[slow] * 3, eager=EAGER).trust(shown())


def test_a_processor_or_a_slow_launch_is_not_measured_again():
    slow = Trusted(9.0, "burst", 8, baseline_us=50.0)
    assert Stage("cpu", trusted=[slow], eager=EAGER).trust(shown()).findings[0].code == "time.trusted"
    late = {"samples_us": [100.0], "host_us": [stage.LONGEST_HOLD_US + 1]}
    assert Stage(trusted=[slow], eager=late).trust(shown()).findings[0].code == "time.trusted"
    counted = Stage(trusted=[slow], eager=EAGER)
    counted.gaps = True
    assert counted.trust(shown()).findings[0].code == "time.trusted", "calls back to back hide what one call waits for"
    held = {"samples_us": [100.0], "host_us": [stage.LONGEST_HOLD_US]}
    with pytest.raises(JudgeError):
        Stage(trusted=[slow] * 3, eager=held).trust(shown())


@pytest.mark.parametrize(("number", "times"), [(2, "measured twice"), (3, "measured three times")])
def test_a_confirmation_keeps_what_was_noticed_before_and_the_first_speedup(number, times):
    own = Stage(trusted=[Trusted(20.0, "burst", 8, baseline_us=100.0)], eager=EAGER)
    first = shown()
    first.findings = [Finding("time.trusted", "old"), Finding("time.no_incumbent", "kept")]
    if number == 3:
        first.findings.append(Finding("time.confirmed", "old", {"first_speedup": 7.0}))
    found = own.confirm(first, number)
    assert own.again == [(f"#{number}", False)]
    assert [one.code for one in found.findings] == ["time.trusted", "time.no_incumbent", "time.confirmed"]
    assert found.findings[0].message != "old" and times in found.findings[-1].message.replace("a narrow win, ", "")
    expected = {"first_speedup": 7.0} if number == 3 else {"first_speedup": 2.0, "first_low": 1.9, "first_high": 2.1}
    assert found.findings[-1].data == expected


def test_a_baseline_is_known_from_before():
    own, found = Stage(), shown()
    own.known(found, AUTOTUNE, [30.0, 30.0])
    assert found.timings[-1].detail == {"mode": "max-autotune", "cached": True, "precision": "strict"}
    assert found.timings[-1].subject is Subject.AUTOTUNE and found.over_others["autotune"].value == 3.0
    assert found.over_others["autotune"].over is Subject.AUTOTUNE
    own.known(found, BASELINES["shipped"], [5.0, 5.0])
    assert found.timings[-1].detail == {"cached": True, "precision": "shipped"}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (None, ""),
        (SubjectFailed("compile", "exception", "timed", "no such operator"), "left out: no such operator"),
        (Ended(Verdict.REFUSED_PROBLEM, "timing", "problem.raises", "it raised"), "left out: it raised"),
    ],
)
def test_a_baseline_that_fails_is_told_and_has_no_time(fault, words):
    own, found = Stage(), shown()
    own.introduce, own.lock = lambda name: (name, None), "lock"

    def run(sides, lock):
        assert (sides[0].contact, sides[0].blame, sides[0].limits, lock) == ("compile", False, ["a limit"], "lock")
        if fault is not None:
            raise fault
        sides[0].samples_us += [20.0] * 4
        return Circumstances()

    own.measurement = SimpleNamespace(run=run, told=True, spares=False, clock=SimpleNamespace(unavailable="no GPU"))
    own.device = "cpu"
    assert own.alternative(found, COMPILE, ["a limit"]) == words
    if words:
        assert len(found.timings) == 1 and found.over_others == {}
    else:
        detail = found.timings[-1].detail
        assert (detail["mode"], detail["precision"], detail["sm_clock_mhz"]) == ("default", "strict", "no GPU")
        assert found.over_others["compile"].value == 2.0


def test_a_time_says_how_it_came_about(monkeypatch):
    monkeypatch.setattr(stage, "empty_us", lambda device: 3.5)
    own = Stage()
    own.measurement = SimpleNamespace(spares=False, clock=SimpleNamespace(unavailable="never"))
    side = Runner(None, None, False, samples_us=[19.0, 30.0, 31.0], host_us=[3.0, 1.0, 2.0])
    seen = Circumstances(clocks_mhz=[1900, 1980], throttled=4, dropped=2, waited_s=0.05)
    found = own._timing(Subject.EAGER, side, seen)
    assert found.detail == {
        **stage.FLAGS, "precision": "strict", "host_us": 2.0, "sm_clock_mhz": [1900, 1980], "throttled": 4,
        "waited_for_quiet_s": 0.05, "dropped_pairs": 2, "empty_us": 3.5,
    }  # fmt: skip
    plain = own._timing(Subject.EAGER, Runner(None, None, False, samples_us=[20.0]), Circumstances(waited_s=0.049))
    assert plain.detail == {**stage.FLAGS, "precision": "strict", "sm_clock_mhz": "never"}


def test_the_trusted_clock_has_the_gpu_alone_and_a_quiet_moment(monkeypatch):
    said: list[object] = []

    @contextmanager
    def quiet(lock, device, puts_off):
        said.append(f"alone, quiet {device}, {puts_off}")
        yield 0.25
        said.append("shared")

    def told(measurement, candidate, eager, rng, claimed_us):
        said.append((measurement, candidate, eager, rng, claimed_us))
        if claimed_us < 0:
            raise SubjectFailed("candidate", "died", "burst", "")
        return "a time"

    monkeypatch.setattr(stage, "quiet_and_alone", quiet)
    monkeypatch.setattr(stage, "trusted_time", told)
    own = Stage()
    mine, theirs = (SimpleNamespace(contact=SimpleNamespace(name=name)) for name in ("candidate#2", "eager#2"))
    measurement = SimpleNamespace(
        placing=lambda names: nullcontext(said.append(names)), check_taken=lambda: said.append("checked")
    )
    monkeypatch.setattr(stage, "draw_ahead", lambda measurement, claimed_us: said.append(f"drawn for {claimed_us}"))
    lock = SimpleNamespace(
        without_contexts=lambda: nullcontext(said.append("no contexts")),
    )
    own._sides, own.lock, own.measurement, own.rng = {"candidate": mine, "eager": theirs}, lock, measurement, 4
    assert TimingStage._trusted(own, 5.0) == "a time"
    called = (measurement, mine, theirs, 4, 5.0)
    assert said == [
        "drawn for 5.0", "alone, quiet cuda:0, True", "no contexts", ["candidate#2", "eager#2"], called,
        "shared", "checked",
    ], "what needs no quiet is done before and after"  # fmt: skip
    with pytest.raises(Ended) as caught:
        TimingStage._trusted(own, -1.0)
    assert (caught.value.verdict, caught.value.stage, caught.value.reason) == (Verdict.CRASHED, "timing", "run.died")


def test_the_terms_of_a_gpu_are_read_off_it_once(monkeypatch):
    asked: list[str] = []

    def reads(us: float):
        return lambda device: asked.append(device) or us

    properties = SimpleNamespace(total_memory=100 << 30)
    monkeypatch.setattr(trusted.torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(trusted, "bandwidth_bytes_per_us", reads(4e6))
    monkeypatch.setattr(trusted, "empty_us", reads(2.5))
    monkeypatch.setattr(trusted, "graph_copy_us", reads(4.5))
    terms_of.cache_clear()
    found = terms_of("cuda:7")
    assert found == terms_of("cuda:7") and asked == ["cuda:7"] * 3
    assert (found.memory, found.moved, found.nothing_us, found.graph_stored_us) == (
        int(0.04 * (100 << 30)),
        4e6,
        2.5,
        4.5,
    )
    assert dataclasses.replace(found, memory=GPU.memory, moved=GPU.moved, nothing_us=0.0, graph_stored_us=0.0) == GPU
    terms_of.cache_clear()


def test_a_best_so_far_that_fails_is_left_out_and_noted():
    own = TimingStage.__new__(TimingStage)
    own.device, own.method, own.precision, own.lock, tried = "cpu", "wall_clock", "strict", None, []

    def run(sides, lock, rival=None):
        tried.append([side.contact for side in sides])
        if rival is not None:
            raise SubjectFailed("incumbent", "exception", "timed", "gone")
        for number, side in enumerate(sides, 1):
            side.samples_us += [10.0 * number] * 4
        return Circumstances()

    own.measurement = SimpleNamespace(run=run, told=True, spares=False, clock=SimpleNamespace(unavailable=""))
    begun = []
    own.introduce, own.begin = lambda name: (name, None), begun.append
    found = own.measure(suffix="#2", rival=True)
    assert begun[0] == ["candidate#2", "eager#2", "incumbent#2"], "all of them before any is waited for"
    assert tried == [["candidate#2", "eager#2", "incumbent#2"], ["candidate#2", "eager#2"]]
    assert [(one.code, one.message) for one in found.findings] == [
        ("time.no_incumbent", "the best so far failed: gone")
    ]
    assert found.rival is None
    assert found.speedup is not None and found.speedup.value == 2.0
    assert [one.subject for one in found.timings] == [Subject.CANDIDATE, Subject.EAGER]


def compared(stopped: str, *, screen: bool, best: bool = False, beat: float | None = 2.0) -> list[object]:
    """What a comparison does, in order."""
    own, did = TimingStage.__new__(TimingStage), []
    own.measurement = SimpleNamespace(screening=False, beat=beat)

    def measure(*, suffix="", rival=False):
        did.append((own.measurement.screening, rival))
        return Measured(stopped=stopped)

    own.measure = measure
    own.trust = lambda found: pytest.fail("only what is published is checked by the trusted clock")
    _, may_be_best = own.compare(lambda: did.append("rival") or True, lambda found: best, screen=screen)
    assert not own.measurement.screening and may_be_best is (best and stopped != BELOW)
    return did


def test_the_best_so_far_is_fetched_for_what_may_beat_it():
    full = ["rival", (False, True)]
    assert compared(BELOW, screen=True, best=True) == [(True, False)]
    assert compared(MEETS, screen=True) == [(True, False), *full]
    assert compared(TIME, screen=True, best=True) == [(True, False), *full]
    assert compared(BELOW, screen=False) == full
    assert compared(AGAIN, screen=True, best=True, beat=None) == [(True, False)], "it is confirmed, whatever it reads"
    assert compared(AGAIN, screen=True, beat=None) == [(True, False), *full]


def test_a_call_that_is_not_compared_runs_no_reference_once_the_layout_is_known(monkeypatch):
    ran = []
    outputs = lambda inputs, seed, state: ran.append((seed, state)) or [torch.zeros(3)]  # noqa: E731
    own = measurement(reference=SimpleNamespace(outputs=outputs))
    assert [meta.shape for meta in own._metas([], 1, None)] == [(3,)]
    assert [meta.shape for meta in own._metas([], 2, None)] == [(3,)] and ran == [(1, "first")]
    assert [meta.shape for meta in own._metas([], 3, [torch.zeros(4)])] == [(4,)] and len(ran) == 1
