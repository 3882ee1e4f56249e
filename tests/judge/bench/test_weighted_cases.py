"""Cases with a weight: each is checked and timed, and the speedup is their weighted geometric mean."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from judge.bench.deciding.case_timing import CaseTiming
from judge.bench.deciding.weighing import ALONE, Weighing
from judge.bench.device.statistics import joint_confidence, paired_speedup, timing_of, weighted_mean
from judge.bench.exchange.contact import Deadline
from judge.bench.judging.completion import Ended, in_case
from judge.bench.timing.modelled import fixed_seed
from judge.bench.timing.stage import Measured
from judge.values import (
    Basis,
    CaseRecord,
    CaseState,
    Finding,
    Job,
    Limits,
    Outcome,
    ProblemSpec,
    SpeedCall,
    Speedup,
    Subject,
    Timing,
    Verdict,
)
from tests.judge.bench_problems import believed

pytestmark = pytest.mark.bench
ROWS = """
import torch

ROWS, COLUMNS = 16, 64

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x * 2.0 + 1.0)

def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]

def get_init_inputs():
    return []

def get_cases():
    return {
        "wide": {"COLUMNS": 512, "ROWS": 16, "weight": 3},
        "thin": {"COLUMNS": 1, "ROWS": 8, "weight": 1},
        "odd": {"COLUMNS": 37},
        "gpu": {"ROWS": 1 << 20, "weight": 9},
    }
"""
# One launch in place of three; thirty of them for thin rows.
BY_ROW = """
import torch, triton, triton.language as tl

@triton.jit
def rows(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0) * 2.0 + 1.0
    e = tl.exp(-2.0 * tl.abs(v))
    t = (1.0 - e) / (1.0 + e)
    tl.store(y + tl.program_id(0) * n + at, tl.where(v < 0, -t, t), mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        for _ in range(30 if x.shape[1] == 1 else 1):
            rows[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
"""
TORCH = ROWS.replace("class Model(", "class ModelNew(")
SLOWER_THIN = TORCH.replace(
    "return torch.tanh(x * 2.0 + 1.0)",
    "y = torch.tanh(x * 2.0 + 1.0)\n        if x.shape[1] == 1:\n            for _ in range(40):\n"
    "                y = torch.tanh(x * 2.0 + 1.0)\n        return y",
)
LIES_ABOUT_THIN = """
import gc, torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        if x.shape[1] == 1:
            for one in gc.get_objects():
                if type(one).__name__ == "Subject":
                    one.clock = {clock}
        return torch.tanh(x * 2.0 + 1.0)
"""


def judged(bench: Any, source: str, problem: str = ROWS, **job: Any) -> Outcome:
    limits = Limits(wall_s=40, stage_s=20)
    return bench.evaluate(Job("test", ProblemSpec(problem), source, limits=limits, **job))


def row(outcome: Outcome, name: str) -> Any:
    return next(one for one in outcome.weighted if one.case == name)


@pytest.fixture(scope="module")
def by_row(interpreter_bench: Any) -> Outcome:
    return judged(interpreter_bench, BY_ROW, beat=math.inf)


def test_the_speedup_is_the_weighted_mean_over_the_cases_that_the_device_is_asked(by_row):
    assert by_row.verdict is Verdict.PASS
    wide, thin = (row(by_row, name).speedup for name in ("wide", "thin"))
    assert wide.value > 1 > thin.value, "faster in one case and slower in the other"
    assert by_row.speedup.value == pytest.approx(math.exp((3 * math.log(wide.value) + math.log(thin.value)) / 4))
    assert by_row.speedup.low == pytest.approx(math.exp((3 * math.log(wide.low) + math.log(thin.low)) / 4))
    assert by_row.speedup.basis is Basis.MODELLED
    assert [one.case for one in by_row.mean_of] == ["wide", "thin"]
    assert [one.state for one in by_row.weighted] == [
        CaseState.TIMED, CaseState.TIMED, CaseState.TIMED, CaseState.CHECKED, CaseState.LEFT_OUT,
    ]  # fmt: skip
    evaluated = by_row.weighted[0]
    assert evaluated.evaluated and evaluated.weight == 0 and evaluated.speedup.value != by_row.speedup.value
    own = {timing.subject: timing.median_us for timing in by_row.timings}
    assert evaluated.speedup.value == pytest.approx(own[Subject.EAGER] / own[Subject.CANDIDATE])


def test_a_case_that_is_surely_slower_is_named(by_row):
    found = [one for one in by_row.findings if one.code == "case.slower"]
    assert [one.data["case"] for one in found] == ["thin"]
    assert "'thin'" in found[0].message


def test_modelled_times_of_cases_are_the_same_each_time(by_row, interpreter_bench):
    again = judged(interpreter_bench, BY_ROW, beat=math.inf)
    assert [one.speedup for one in again.weighted] == [one.speedup for one in by_row.weighted]


def test_less_work_for_the_draw_that_is_counted_is_suspect(interpreter_bench):
    torch.manual_seed(fixed_seed(ROWS))
    known = float(torch.randn(16, 512)[0, 0])
    source = BY_ROW.replace(
        "30 if x.shape[1] == 1 else 1",
        f"30 if x.shape[1] == 1 or (x.shape[1] == 512 and abs(float(x[0, 0]) - {known!r}) > 1e-6) else 1",
    )
    outcome = judged(interpreter_bench, source, beat=math.inf)
    assert (outcome.verdict, outcome.reason) == (Verdict.SUSPECT, "audit.counts"), outcome.message
    assert "in case 'wide'" in outcome.message


def test_one_that_is_wrong_in_a_weighted_case_is_wrong(interpreter_bench):
    wrong = BY_ROW.replace("tl.where(v < 0, -t, t)", "tl.where(n == 1, t, tl.where(v < 0, -t, t))")
    outcome = judged(interpreter_bench, wrong)
    assert outcome.verdict is Verdict.WRONG and "in case 'thin'" in outcome.message
    states = {one.case: one.state for one in outcome.weighted}
    assert (states[""], states["thin"], states["gpu"]) == (CaseState.CHECKED, CaseState.FAILED, CaseState.LEFT_OUT)
    assert {states["wide"], states["odd"]} <= {CaseState.CHECKED, CaseState.NOT_REACHED}, "in any order"


def test_a_kernel_that_only_a_weighted_case_launches_is_compiled_there(interpreter_bench):
    """2 MiB of shared memory fit no GPU; the evaluated case never launches that kernel."""
    huge = BY_ROW.replace("        for _", "        if x.shape[1] == 1:\n            return big(x)\n        for _") + (
        "\n@triton.jit\ndef product(x, y, n, B: tl.constexpr):\n"
        "    at = tl.arange(0, B)\n    far = at[:, None] * B + at[None, :]\n"
        "    a = tl.load(x + far, mask=far < n, other=0.0)\n"
        "    tl.store(y + far, tl.dot(a, a), mask=far < 0)\n\n"
        "def big(x):\n    y = torch.tanh(x * 2.0 + 1.0)\n    product[(1,)](x, y, x.numel(), B=512)\n    return y\n"
    )
    outcome = judged(interpreter_bench, huge)
    assert (outcome.verdict, outcome.stage) == (Verdict.COMPILE_FAILED, "correctness")
    assert "in case 'thin'" in outcome.message


def test_without_weights_nothing_but_the_evaluated_case_is_timed(interpreter_bench):
    plain = ROWS.replace(', "weight": 3', "").replace(', "weight": 1', "").replace(', "weight": 9', "")
    outcome = judged(interpreter_bench, BY_ROW, plain, beat=math.inf)
    assert outcome.weighted == () == outcome.mean_of
    assert "weighted" not in outcome.to_json(), "an older reader takes it"
    assert outcome.speedup.value == pytest.approx(outcome.timings[1].median_us / outcome.timings[0].median_us), (
        "of the evaluated case"
    )


@pytest.mark.quiet
def test_a_would_be_best_is_measured_in_each_case_in_fresh_processes(cpu_bench):
    outcome = believed(lambda: judged(cpu_bench, SLOWER_THIN, beat=0.0, incumbent=SLOWER_THIN))
    assert outcome.verdict is Verdict.PASS
    passes = [stage.detail for stage in outcome.stages if stage.name == "cases.timing"]
    assert passes[0] == "2 of 2 timed, pass 1"
    thin = row(outcome, "thin")
    assert thin.speedup.call is SpeedCall.SLOWER, "forty times the work"
    assert [one.subject for one in thin.timings] == [Subject.CANDIDATE, Subject.EAGER, Subject.INCUMBENT]
    assert "thin" in [one.data["case"] for one in outcome.findings if one.code == "case.slower"]
    wide = row(outcome, "wide")
    mean = math.exp((3 * math.log(wide.speedup.value) + math.log(thin.speedup.value)) / 4)
    assert outcome.speedup.value == pytest.approx(mean)
    assert outcome.versus_incumbent.over is Subject.INCUMBENT
    back = Outcome.from_json(outcome.to_json())
    assert back.weighted == outcome.weighted


@pytest.mark.parametrize("clock", ["lambda *_: 1e-9", "type('Clock', (), {'time': lambda *_: (-1.0, 0.0)})()"])
def test_a_child_that_lies_about_the_samples_of_a_case_gets_no_pass(cpu_bench, clock):
    outcome = judged(cpu_bench, LIES_ABOUT_THIN.format(clock=clock))
    assert outcome.verdict in (Verdict.DISHONEST, Verdict.SUSPECT, Verdict.CRASHED)
    assert "in case 'thin'" in outcome.message


# -- the mean, and what one evaluation found of each case --


def modelled(value: float, low: float, high: float) -> Speedup:
    return Speedup(value, low, high, 1, Basis.MODELLED)


def test_a_weighted_mean_has_the_means_of_the_ends():
    found = weighted_mean([(1.0, modelled(4.0, 2.0, 8.0)), (3.0, modelled(1.0, 0.5, 2.0))])
    assert found.value == pytest.approx(4 ** (1 / 4)) and found.n == 1
    assert (found.low, found.high) == pytest.approx((found.value / 2, found.value * 2)), "one factor stays one"
    one = modelled(3.0, 2.0, 4.0)
    assert weighted_mean([(7.0, one)]) is one
    tiny = weighted_mean([(5e-324, one), (1e308, modelled(2.0, 1.0, 4.0)), (1e308, modelled(2.0, 1.0, 4.0))])
    assert tiny.value == pytest.approx(2.0), "weights of any size"
    with pytest.raises(ValueError, match="no speedups"):
        weighted_mean([])


def test_a_measured_mean_says_what_its_interval_means():
    sides = [(1.0, Speedup(1.2, 1.1, 1.3, 32, Basis.MEASURED)), (1.0, Speedup(1.0, 0.95, 1.05, 16, Basis.MEASURED))]
    found = weighted_mean(sides)
    assert (found.n, found.call) == (16, SpeedCall.FASTER)
    assert weighted_mean(sides, 0.05).call is SpeedCall.AMBIGUOUS, "the clock cannot tell them apart"


def test_joint_intervals_are_wider_so_that_all_hold_at_once():
    assert joint_confidence(1) == 0.998 and joint_confidence(4) == pytest.approx(0.9995)
    samples = [float(n) for n in range(100, 164)]
    single = paired_speedup(samples, [100.0] * 64)
    joint = paired_speedup(samples, [100.0] * 64, confidence=joint_confidence(8))
    assert joint.value == single.value and joint.low < single.low and single.high < joint.high


def pairs(eager_us: float, mine_us: float, best_us: float | None = None, *, told: bool = True) -> Measured:
    """Of 16 equal pairs on a GPU."""
    sides = {Subject.CANDIDATE: mine_us, Subject.EAGER: eager_us}
    sides |= {} if best_us is None else {Subject.INCUMBENT: best_us}
    timings: list[Timing] = [timing_of(subject, [us] * 16, "cuda_events") for subject, us in sides.items()]
    found = Measured(timings)
    if told:
        found.speedup = paired_speedup([eager_us], [mine_us])
        found.rival = None if best_us is None else paired_speedup([best_us], [mine_us], Subject.INCUMBENT)
    return found


def weighing(case: str | None = "gpu", **weights: float) -> Weighing:
    cases: dict[str, dict[str, Any]] = {"gpu": {}, "wide": {}, "thin": {}}
    loaded: Any = SimpleNamespace(cases=cases, case=case, weights=weights)
    return Weighing(loaded, {name: "" for name in cases if name != case})


def test_whether_the_best_is_beaten_is_decided_by_the_same_mean():
    cases = weighing(gpu=1.0, thin=1.0)
    cases.found = {"thin": pairs(100.0, 200.0, 100.0)}
    found = cases.together(pairs(100.0, 50.0, 55.0))
    assert found.speedup.value == pytest.approx(1.0) and found.rival.value == pytest.approx(math.sqrt(1.1 * 0.5))
    assert not found.beats_rival, "it wins the evaluated case and loses over all"
    assert found.rival.over is Subject.INCUMBENT
    assert cases.together(found) == found, "from the samples, so as often as one likes"


def test_a_case_without_a_time_leaves_no_mean():
    cases = weighing(gpu=1.0, wide=1.0, thin=1.0)
    cases.found = {"wide": pairs(100.0, 50.0)}
    assert cases.together(pairs(100.0, 50.0)).speedup is None
    cases.found["thin"] = pairs(100.0, 50.0, told=False)
    assert cases.together(pairs(100.0, 50.0)).speedup is None, "what it draws could not be checked"
    cases.found["thin"] = pairs(100.0, 50.0)
    assert cases.together(pairs(100.0, 50.0, told=False)).speedup is None
    assert cases.together(pairs(100.0, 50.0)).speedup.value == 2.0
    cases.found["thin"].plausible = False
    assert not cases.together(pairs(100.0, 50.0)).plausible


def test_the_best_so_far_must_be_timed_in_every_case():
    cases = weighing(gpu=1.0, thin=1.0)
    cases.found = {"thin": pairs(100.0, 50.0)}
    assert cases.together(pairs(100.0, 50.0, 100.0)).rival is None


@pytest.mark.parametrize(
    ("mine_us", "best_us", "beat", "loses"),
    [
        (60.0, 50.0, 3.0, True),
        (60.0, 50.0, 1.5, False),  # its speedup is above the best's mean
        (50.0, 50.0, 3.0, False),  # a tie: the other cases decide
        (40.0, 50.0, 3.0, False),
        (60.0, 50.0, None, True),
        (60.0, None, 3.0, True),
        (60.0, None, 1.5, False),
        (60.0, None, math.inf, False),
        (60.0, None, None, False),
    ],
)
def test_who_is_slower_in_the_evaluated_case_is_timed_there_alone(mine_us, best_us, beat, loses):
    assert weighing(thin=1.0).loses(pairs(100.0, mine_us, best_us), beat) is loses


def test_one_timed_in_the_evaluated_case_alone_says_so():
    cases = weighing(thin=2.0)
    cases.skipped = True
    alone = pairs(100.0, 60.0)
    assert cases.together(alone) is alone
    rows = cases.rows(Verdict.PASS, None, [CaseRecord("wide", "given", True), CaseRecord("thin", "given", True)])
    assert [(one.case, one.state, one.detail) for one in rows] == [
        ("gpu", CaseState.TIMED, ""), ("wide", CaseState.CHECKED, ""), ("thin", CaseState.CHECKED, ALONE),
    ]  # fmt: skip


def test_what_timing_in_a_case_noticed_is_told_with_its_name():
    cases = weighing(thin=1.0)
    slow = pairs(100.0, 200.0)
    slow.findings.append(Finding("time.unchecked", "too large"))
    cases.found = {"thin": slow}
    cases.together(pairs(100.0, 50.0))
    assert [(one.code, one.data["case"]) for one in cases.findings()] == [
        ("case.slower", "thin"), ("time.unchecked", "thin"),
    ]  # fmt: skip


def test_a_refused_problem_has_no_rows_and_a_failure_elsewhere_checked_the_evaluated_case():
    cases = weighing(thin=1.0)
    ended = Ended(Verdict.TIMED_OUT, "timing", "run.timeout", "no answer")
    assert cases.rows(Verdict.REFUSED_PROBLEM, ended, []) == ()
    assert cases.rows(Verdict.TIMED_OUT, ended, [])[0].state is CaseState.FAILED
    told = in_case(ended, "thin", "timing")
    records = [CaseRecord("thin", "given", True)]
    states = [one.state for one in cases.rows(Verdict.TIMED_OUT, told, records)]
    assert states == [CaseState.CHECKED, CaseState.NOT_REACHED, CaseState.FAILED]
    assert told.message.startswith("in case 'thin' of get_cases(): ")


def test_a_weighted_case_left_out_while_it_was_checked_leaves_no_mean():
    cases = weighing(gpu=1.0, thin=1.0)
    cases.checked([CaseRecord("thin", "given", True, detail="left out: it took all the time")])
    assert cases.to_time == [] and cases.counting == ["thin"]
    assert cases.together(pairs(100.0, 50.0)).speedup is None


def passes(cases: Weighing, *found: tuple[Measured, Measured]) -> list[Measured]:
    """Means of passes over the evaluated case and `thin`."""
    means = []
    for number, (alone, thin) in enumerate(found, 1):
        cases.number, cases.found = number, {"thin": thin}
        means.append(cases.together(alone))
    return means


def launching(eager_us: float, mine_us: float) -> Measured:
    return replace(pairs(eager_us, mine_us), gaps=True)


def test_a_case_that_waits_for_its_launches_is_widened_whatever_the_evaluated_one_does():
    quiet, wide = weighing(gpu=1.0, thin=1.0), weighing(gpu=1.0, thin=1.0)
    one = pairs(100.0, 50.0)
    told = quiet.published(passes(quiet, (one, one), (one, one)), None).speedup
    assert (told.low, told.high) == (2.0, 2.0) and not quiet.gaps
    found = wide.published(passes(wide, (one, launching(100.0, 50.0)), (one, launching(100.0, 50.0))), None)
    own = wide.agreed("thin", Subject.EAGER, joint_confidence(2))
    assert wide.gaps and own.high > 2.1 and wide.agreed("gpu", Subject.EAGER).high == 2.0
    assert found.speedup.high == pytest.approx(math.sqrt(2.0 * own.high)), "half of the mean is the other case's"
    rows = wide.rows(Verdict.PASS, None, [CaseRecord("thin", "given", True)])
    assert [row.speedup.high > 2.1 for row in rows if row.speedup] == [False, True]


def test_the_luck_of_processes_is_learned_in_the_evaluated_case_alone():
    cases = weighing(gpu=1.0, thin=1.0)
    one, far = launching(100.0, 50.0), launching(100.0, 25.0)
    passes(cases, (one, far), (one, one), (launching(110.0, 50.0), far))
    assert cases.learned().variance == pytest.approx(math.log(1.1) ** 2 / 2)
    other = weighing(gpu=1.0, thin=1.0)
    passes(other, (pairs(100.0, 50.0), far), (pairs(100.0, 50.0), one))
    assert other.learned() is None


@pytest.mark.parametrize(("mine_us", "weight", "hopeless"), [
    (150.0, 1.0, False), (399.0, 1.0, False), (401.0, 1.0, True), (401.0, 2.0, False), (150.0, 0.2, True),
])  # fmt: skip
def test_a_loser_is_hopeless_where_no_plausible_gain_elsewhere_makes_up_for_it(mine_us, weight, hopeless):
    """It takes `mine_us` where the best so far takes 100."""
    cases = weighing(gpu=1.0, thin=weight)
    assert cases.hopeless(pairs(1000.0, mine_us, 100.0), 10.0) is hopeless
    assert cases.hopeless(pairs(1000.0, mine_us), 10.0) is hopeless, "by its speedup, where the best did not run"
    assert not weighing(gpu=0.0, thin=1.0).hopeless(pairs(1000.0, 1e6, 100.0), 10.0), "that case does not count"
    assert cases.hopeless(pairs(1000.0, 100.0, told=False), 10.0)


@pytest.mark.parametrize(("mine_us", "thin_us", "looks"), [
    (150.0, 40.0, [True, False]), (150.0, 90.0, [True]), (500.0, 40.0, []), (90.0, 90.0, [False]),
])  # fmt: skip
def test_a_loser_of_the_evaluated_case_gets_a_short_look_in_the_others(mine_us, thin_us, looks):
    """The best so far takes 100 in both: only a gain elsewhere that the mean shows is measured there."""
    timing, asked = CaseTiming.__new__(CaseTiming), []
    timing.weighing, timing.records, timing.payload = weighing(gpu=1.0, thin=1.0), [], {"beat": 10.0, "wall_s": 60}
    timing.family, timing.setting = "given", SimpleNamespace(subjects=SimpleNamespace(deadline=Deadline(60, 30)))

    def measure(number: int, until: float, *, rival: bool, short: bool = False) -> None:
        asked.append(short)
        timing.weighing.found = {"thin": pairs(1000.0, thin_us, 100.0)}

    timing._measure = measure
    found = timing.over(pairs(1000.0, mine_us, 100.0))
    assert asked == looks and timing.weighing.skipped is (False not in looks)
    assert found.beats_rival is (False in looks) and ("thin" in timing.weighing.found) is (False in looks)


@pytest.mark.parametrize(("device", "times"), [("cpu", 0), ("cuda:0", 1)])
def test_memory_that_a_case_held_on_a_gpu_is_there_for_the_next(monkeypatch, device, times):
    emptied: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(device))
    timing = CaseTiming.__new__(CaseTiming)
    timing.setting = SimpleNamespace(device=device)
    timing._give_back()
    assert len(emptied) == times
