"""What the referee decides beside the rounds: who is audited, whose fault an ending is, what is counted. No child."""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from judge.bench.deciding import referee as refereeing
from judge.bench.deciding import referee_cache
from judge.bench.deciding.memory_account import MemoryAccount
from judge.bench.deciding.referee import Referee
from judge.bench.deciding.referee_cache import RefereeCache
from judge.bench.device.gpu_lock import GpuUse
from judge.bench.exchange.contact import Deadline, SubjectFailed
from judge.bench.foreign.switches import neutral
from judge.bench.foreign.whereabouts import SILENT, DeviceLost, Whereabouts
from judge.bench.interpreting.traffic import LaunchTraffic, TrafficReport
from judge.bench.judging.asked_gradients import Asked
from judge.bench.judging.completion import Ended
from judge.bench.timing.counted import check_compiled, check_counts
from judge.bench.timing.modelled import fixed_seed, modelled
from judge.bench.timing.stage import Measured
from judge.values import (
    ALTERNATIVES,
    Audit,
    Basis,
    CaseRecord,
    Finding,
    JudgeError,
    Policy,
    SpeedCall,
    Speedup,
    StageRecord,
    Subject,
    Timing,
    Verdict,
)
from tests.judge.replies import COUNTED, KERNEL, compiled, counted, forwarded
from tests.judge.rounds_bench import problem


def speed(value: float) -> Speedup:
    return Speedup(value, value, value, 16, Basis.MEASURED)


def shown(value: float = 2.0, **given: object) -> Measured:
    timing = Timing(Subject.CANDIDATE, Basis.MEASURED, "cuda_events", (10.0,) * 4, 10.0, 9.0, 11.0)
    return Measured([timing], speed(value), **given)


class Log:
    """A stage log that only remembers."""

    def __init__(self, now: str = "timing") -> None:
        self.now, self.said, self.stages = now, [], [StageRecord("load", "ok", 1.0)]

    def doing(self, what):
        self.now = what
        self.said.append(what)

    def timed(self, name, step):
        result = step()
        self.record(name, "ok", 1.0)
        return result

    def record(self, name, state, wall_ms, detail=""):
        self.stages.append(StageRecord(name, state, wall_ms, detail))


def account() -> MemoryAccount:
    """Of an evaluation whose problem has no plan."""
    return MemoryAccount(SimpleNamespace(reference=None), SimpleNamespace(contacts={}), "cpu")


def referee(**given: object) -> Referee:
    """One that was not begun: what it decides by is as after a pass with a time."""
    bare = Referee.__new__(Referee)
    payload = {"basis": "measured", "timing": True, "beat": 1.5, "case": None, "known_us": {}, "beside_best": []}
    vars(bare).update(
        {
            "payload": payload | given.pop("payload", {}), "timed": shown(), "timing": "the stage", "confirmed": True,
            "device": "cpu", "interprets": False, "loads": True, "records": [], "kernels": [], "findings": [],
            "environment": {}, "rounds": None, "audit": Audit.NONE, "stage_log": Log(),
            "whereabouts": SimpleNamespace(device_lost=lambda: False, last=""), "deadline": Deadline(60, 30),
            "lock": SimpleNamespace(shared=nullcontext, fd=None), "memory": account(),
        }
        | given
    )  # fmt: skip
    return bare


# -- who is audited --


@pytest.mark.parametrize(
    ("payload", "given", "audited"),
    [
        ({}, {}, True),
        ({}, {"confirmed": False}, False),
        ({"beat": 2.0}, {}, False),
        ({"beat": 1.99}, {}, True),
        ({"beat": None}, {}, True),
        ({"beat": None}, {"confirmed": False}, False),
        ({"beat": math.inf}, {}, False),
        ({"timing": False, "beat": None}, {"confirmed": False, "timed": Measured()}, True),
        ({"timing": False}, {"confirmed": False, "timed": Measured()}, False),
        ({"basis": "modelled"}, {"confirmed": False}, True),
        ({"basis": "modelled", "beat": 3.0}, {"confirmed": False}, False),
    ],
)
def test_what_would_be_the_best_is_audited(payload, given, audited):
    assert referee(payload=payload, **given)._to_be_audited() is audited


def test_a_bar_is_passed_and_not_only_reached():
    one = referee()
    assert not one._would_be_best(speed(1.5)) and one._would_be_best(speed(1.51)) and not one._would_be_best(None)
    assert referee(payload={"beat": None})._would_be_best(speed(0.5))
    assert not referee(payload={"beat": None})._would_be_best(None)


def test_what_has_seen_more_than_the_rounds_does_not_stay():
    assert not referee().has_audited
    assert referee(stage_log=Log("audit")).has_audited and referee(audit=Audit.PASSED).has_audited
    assert not referee(audit=Audit.FAILED).has_audited


# -- endings --


def outcome(fault: Exception | None, **given: object):
    one = referee(**given)

    def judge() -> None:
        if fault is not None:
            raise fault

    one._judge = judge
    return one.outcome()


def test_a_pass_carries_all_that_was_found():
    found = outcome(
        None,
        timed=shown(rival=speed(1.2), over_others={"compile": speed(1.1)}),
        audit=Audit.PASSED,
        records=[CaseRecord("a", "given", True)],
        kernels=(compiled("k"),),
        findings=[Finding("a.b", "first")],
        environment={"x": 1},
        rounds=SimpleNamespace(noticed=lambda: [Finding("c.d", "then")]),
    )
    assert (found.verdict, found.stage, found.loads, found.audit) == (Verdict.PASS, "load", True, Audit.PASSED)
    assert found.speedup == speed(2.0) and found.versus_incumbent == speed(1.2)
    assert found.over_others == {"compile": speed(1.1)} and [one.median_us for one in found.timings] == [10.0]
    assert [one.code for one in found.findings] == ["a.b", "c.d"] and found.cases[0].case == "a"
    assert found.kernels == (KERNEL,) and found.environment == {"x": 1} and len(found.stages) == 1


def test_an_ending_carries_no_times_and_says_who_failed():
    ended = Ended(Verdict.WRONG, "correctness", "value.mismatch", "off")
    found = outcome(ended)
    assert (found.verdict, found.stage, found.reason, found.message) == (
        Verdict.WRONG,
        "correctness",
        "value.mismatch",
        "off",
    )
    assert found.timings == () and found.speedup is None and found.audit is Audit.NONE
    assert (found.stages[-1].name, found.stages[-1].state, found.stages[-1].detail) == (
        "correctness",
        "failed",
        "value.mismatch",
    )
    assert "failed_child" not in found.environment
    ended.subject = "sealed#1"
    found = outcome(ended, stage_log=Log("audit"))
    assert found.environment["failed_child"] == "sealed#1" and found.audit is Audit.FAILED


def test_a_referee_whose_own_device_failed_blames_the_problem_or_nobody():
    lost = DeviceLost("Model.forward", "illegal access")
    broken = SimpleNamespace(device_lost=lambda: True)
    found = outcome(lost, whereabouts=broken)
    assert (found.verdict, found.stage, found.reason) == (Verdict.REFUSED_PROBLEM, "timing", "problem.raises")
    for fault in (None, Ended(Verdict.WRONG, "correctness", "x.y", "")):
        with pytest.raises(JudgeError, match="context broke while it compared"):
            outcome(fault, whereabouts=broken)
    refused = Ended(Verdict.REFUSED_PROBLEM, "problem", "problem.raises", "")
    assert outcome(refused, whereabouts=broken).verdict is Verdict.REFUSED_PROBLEM


def test_whose_lack_of_memory_it_was_is_asked_before_anybody_is_blamed():
    def may_blame(ended: Ended) -> None:
        raise JudgeError(ended.message)

    with pytest.raises(JudgeError, match="no room"):
        outcome(
            Ended(Verdict.OUT_OF_MEMORY, "smoke", "run.oom", "no room"), memory=SimpleNamespace(may_blame=may_blame)
        )


def test_what_others_hold_is_noted_before_the_problem_is_loaded():
    class Noted(Exception): ...

    def begin() -> None:
        raise Noted

    with pytest.raises(Noted):
        referee(memory=SimpleNamespace(begin=begin), policy=Policy())._judge()


@pytest.mark.parametrize(("others", "blamed"), [(0.2, True), (0.21, False)])
def test_too_little_memory_for_the_reference_is_the_problems_only_on_an_empty_gpu(
    monkeypatch, tmp_path, others, blamed
):
    monkeypatch.setattr(refereeing.gpu, "taken_by_others", lambda device: others)

    cache = SimpleNamespace(reference=SimpleNamespace(plan=None), questions=None)
    subjects = SimpleNamespace(contacts={"candidate": None})

    def problem(fault: Exception) -> tuple[str, str]:
        one = referee(
            assignment=SimpleNamespace(folder=tmp_path), cache=cache, subjects=subjects,
            memory=MemoryAccount(cache, subjects, "cpu"),
        )  # fmt: skip
        monkeypatch.setattr(refereeing, "Rounds", lambda *row: SimpleNamespace(repeats=None))
        one._first = lambda rounds: (_ for _ in ()).throw(fault)
        with pytest.raises(Ended) as caught:
            one._problem()
        return caught.value.verdict.value, caught.value.reason

    if blamed:
        assert problem(torch.OutOfMemoryError("CUDA out of memory")) == ("refused_problem", "problem.memory")
    else:
        with pytest.raises(JudgeError, match="others hold 21% of it"):
            problem(torch.OutOfMemoryError("CUDA out of memory"))
    assert problem(ValueError("no")) == ("refused_problem", "problem.raises"), "whoever holds the memory"
    assert problem(Ended(Verdict.WRONG, "a", "b.c", "")) == ("wrong", "b.c")


def test_what_a_constructor_is_given_and_no_other_process_can_have_is_named(tmp_path):
    source = (
        problem("return x[0]").replace("return []", "return [object()]").replace("__init__(self)", "__init__(self, x)")
    )
    cache, subjects = SimpleNamespace(reference=None, questions=None), SimpleNamespace(contacts={"candidate": None})
    one = referee(
        payload={"source": source}, assignment=SimpleNamespace(folder=tmp_path), cache=cache, subjects=subjects,
        whereabouts=Whereabouts(), policy=Policy(),
    )  # fmt: skip
    with pytest.raises(Ended) as caught:
        one._problem()
    assert caught.value.reason == "problem.unsupported" and caught.value.message.startswith("get_init_inputs()")


def test_an_outcome_says_how_long_it_waited_and_what_it_held():
    lock = SimpleNamespace(fd=5, use=GpuUse(0.25, 1.5, 3.00004, 1.75, 0.5, 0.25))
    one = referee(lock=lock, subjects=SimpleNamespace(waited_s=0.75001))
    told = {"gpu_waited_shared_s": 0.25, "gpu_waited_alone_s": 1.5, "gpu_shared_s": 3.0, "gpu_alone_s": 1.75} | {
        "gpu_quiet_s": 0.5,
        "gpu_waited_contexts_s": 0.25,
    }
    ended = {"verdict": Verdict.TIMED_OUT, "stage": "smoke", "reason": "a.b"}
    assert one._outcome_of(**ended).environment == {**told, "children_waited_s": 0.75}
    assert referee()._outcome_of(**ended).environment == {}, "there is no GPU to wait for"


# -- measuring --


class Stage:
    """A timing stage whose measurement is given; what it is asked is written down."""

    def __init__(self, found: Measured) -> None:
        self.found, self.asked = found, []

    def __call__(self, reference, first, **given):
        self.given = given
        return self

    def compare(self, rival, check, *, screen):
        self.asked.append(("compare", rival(), screen))
        return self.found, check(self.found)

    gaps = False

    def known_of(self, found, times):
        self.asked += times.items()
        return dict.fromkeys(times, "known from before")


def measured(
    monkeypatch, stage: Stage, *, payload: dict[str, object] | None = None, contacts: tuple[str, ...] = ()
) -> Referee:
    one = referee(
        payload={"timing_s": 8.0} | (payload or {}),
        subjects=SimpleNamespace(
            contacts=dict.fromkeys(contacts),
            timed=nullcontext,
            ahead=lambda roles: stage.asked.append(("ahead", *roles)),
        ),
    )
    one.policy = SimpleNamespace(precision=SimpleNamespace(value="strict"))
    one.timed, one.timing = Measured(), None
    one._rival = lambda reference, first: "incumbent" in contacts
    monkeypatch.setattr(
        refereeing.confirming,
        "confirmed",
        lambda stage, found, *_, **given: (stage.asked.append(("confirm",)) or [found], False),
    )
    monkeypatch.setattr(refereeing, "TimingStage", stage)
    one._measure(SimpleNamespace(no_alternatives=lambda on_gpu: {"sdpa": "left out: no"}), "first")
    assert one.timing is stage and one.timed == stage.found
    return one


def test_only_what_would_be_the_best_and_beats_it_is_measured_again(monkeypatch):
    stage = Stage(shown(2.0, findings=[Finding("a.b", "")]))
    one = measured(monkeypatch, stage)
    second = ("ahead", "candidate#2", "eager#2")
    assert stage.asked == [("compare", False, False), second, ("confirm",)]
    assert [f.code for f in one.findings] == ["a.b"] and one.confirmed is False
    assert stage.given["beat"] == 1.5 and stage.given["budget_s"] == 8.0 and stage.given["precision"] == "strict"
    slow = Stage(shown(1.5))
    measured(monkeypatch, slow)
    assert slow.asked == [("compare", False, False)]
    sure = Stage(shown(1.5))
    measured(monkeypatch, sure, payload={"beat": None})
    assert sure.asked[:2] == [second, ("compare", False, True)], "what is confirmed in any case is started before"
    lost = Speedup(1.0, 0.9, 1.1, 16, Basis.MEASURED, Subject.INCUMBENT, SpeedCall.AMBIGUOUS)
    beaten = Stage(shown(2.0, rival=lost))
    one = measured(
        monkeypatch, beaten, contacts=("incumbent",), payload={"known_us": {"autotune": [3.0]}, "screen": True}
    )
    assert beaten.asked == [("compare", True, True), ("autotune", [3.0])]
    assert one.environment["baselines"] == {"autotune": "known from before", "sdpa": "left out: no"}
    won = Stage(shown(2.0, rival=Speedup(1.2, 1.1, 1.3, 16, Basis.MEASURED, Subject.INCUMBENT, SpeedCall.FASTER)))
    measured(monkeypatch, won, contacts=("incumbent",))
    assert won.asked == [("compare", True, False), (*second, "incumbent#2"), ("confirm",)]


def test_a_best_so_far_that_was_not_there_from_the_start_is_asked_for(monkeypatch):
    asked: list[object] = []
    contacts: dict[str, object] = {}
    ready = lambda name, reference, first: asked.append(name)  # noqa: E731
    subjects = SimpleNamespace(contacts=contacts, want=contacts.update, ready=ready)
    assert not referee(subjects=subjects)._rival("reference", "first") and asked == []
    assert referee(subjects=subjects, payload={"screen": True})._rival("reference", "first")
    assert contacts == {"incumbent": "incumbent"} and asked == ["incumbent"]


def test_only_what_is_not_known_and_would_be_another_baseline_is_timed_beside_a_new_best(monkeypatch):
    asked = []

    class Fake:
        def __init__(self, *given):
            assert given[0] == "the stage"

        def time(self, baseline, timed, reference, first):
            asked.append(baseline.name)
            return "measured"

    monkeypatch.setattr(refereeing, "Alternatives", Fake)
    names = {"payload": {"beside_best": ["shipped", "compile"]}, "environment": {"baselines": {"shipped": "no"}}}
    one = referee(subjects=None, **names)
    one._time_alternatives("reference", "first")
    assert asked == ["compile"] and one.environment["baselines"] == {"shipped": "no", "compile": "measured"}


def test_a_problem_that_turns_switches_is_told_and_they_are_put_back():
    neutral(Policy())
    one = referee(policy=Policy())
    one._numerics_hold()
    assert one.findings == []
    torch.backends.cudnn.allow_tf32 = True
    one._numerics_hold()
    assert [finding.code for finding in one.findings] == ["problem.switches"] and not torch.backends.cudnn.allow_tf32


def test_a_best_so_far_that_does_not_load_is_left_out():
    def ready(name, reference, first):
        raise SubjectFailed(name, "load", "load", "no module named x")

    one = referee(subjects=SimpleNamespace(contacts={"incumbent": 1}, ready=ready))
    assert one._rival("reference", "first") is False
    assert one.environment == {"incumbent": "left out: no module named x"}
    assert referee(subjects=SimpleNamespace(contacts={}))._rival("reference", "first") is False
    assert (
        referee(subjects=SimpleNamespace(contacts={"incumbent": 1}, ready=lambda *row: None))._rival("r", "f") is True
    )


# -- counted traffic --


def traffic(*rows: tuple[str, int]) -> TrafficReport:
    return TrafficReport(tuple(LaunchTraffic(name, "triton", 1, *[moved] * 3) for name, moved in rows))


class Halves(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)[:8] * 2


class Picks(torch.nn.Module):
    def forward(self, x):
        return x[:8] * 2


def asked(x: torch.Tensor, out: torch.Tensor, *, aliases: tuple[object, ...] = ()) -> SimpleNamespace:
    return SimpleNamespace(inputs=[x], state={}, seed=1, expected=SimpleNamespace(aliases=list(aliases), same=[out]))


@pytest.mark.parametrize(("model", "certain"), [(Halves(), 4096 + 1024), (Picks(), 1024)])
def test_fewer_bytes_than_the_problem_must_move_are_no_count(model, certain):
    """32 x 32 floats in, 8 x 32 out: nine tenths of what is certain must be counted, not what is only picked from."""
    least = -(-certain * 9 // 10)
    question = asked(torch.randn(32, 32), torch.zeros(8, 32))
    reference = SimpleNamespace(model=model, whereabouts=SILENT, gradients=Asked(Policy(), None))
    check_counts(reference, question, traffic(("a", least - 500), ("b", 500)))
    with pytest.raises(Ended) as caught:
        check_counts(reference, question, traffic(("a", least - 1)))
    assert (caught.value.verdict, caught.value.stage, caught.value.reason) == (
        Verdict.SUSPECT,
        "timing",
        "physics.bytes",
    )
    assert (
        f"{least - 1:,} bytes were counted" in caught.value.message and f"alone are {certain:,}" in caught.value.message
    )
    check_counts(reference, asked(torch.randn(32, 32), torch.zeros(8, 32), aliases=([0, 0],)), traffic(("a", 0)))


def test_where_no_graph_is_to_be_had_outputs_alone_are_certain():
    bad = type("Bad", (torch.nn.Module,), {"forward": lambda self, x: x[: int(x[0, 0] > -9) * 8] * 2})()
    reference = SimpleNamespace(model=bad, whereabouts=SILENT, gradients=Asked(Policy(), None))
    question = asked(torch.randn(32, 32), torch.zeros(8, 32))
    check_counts(reference, question, traffic(("a", 922)))
    with pytest.raises(Ended):
        check_counts(reference, question, traffic(("a", 921)))


def test_kernels_that_the_compiler_never_saw_are_named_in_order():
    rows = [counted(name) for name in ("z", "a", "seen", "z" * 200)]
    with pytest.raises(Ended) as caught:
        check_compiled({"c0de": "seen"}, {}, [*rows, counted("t", "torch")], "")
    assert (caught.value.verdict, caught.value.stage) == (Verdict.SUSPECT, "compile")
    assert caught.value.message.startswith(f"a, z, {'z' * 80} was interpreted")
    check_compiled({"c0de": "seen"}, {}, rows[2:3], "")


def test_the_draw_whose_traffic_is_counted_goes_by_the_text():
    assert fixed_seed("a") == int("ca978112", 16) and fixed_seed("b") != fixed_seed("a")


def test_who_says_nothing_of_what_was_counted_is_dishonest():
    with pytest.raises(Ended) as caught:
        modelled(None, None, forwarded(), "sm_90")
    assert (caught.value.verdict, caught.value.stage, caught.value.reason) == (
        Verdict.DISHONEST,
        "timing",
        "tamper.channel",
    )


def test_a_modelled_time_has_both_sides_and_the_models_range():
    model = Halves()
    loads: list[object] = []
    shipped = {one.name: "no" for one in ALTERNATIVES if one.name != "shipped"}
    without = lambda on_gpu: {"shipped": "no", **shipped}  # noqa: E731
    reference = SimpleNamespace(
        model=model,
        called_with=model,
        gradients=Asked(Policy(), None),
        whereabouts=SILENT,
        load=loads.append,
        no_alternatives=without,
        policy=Policy(),
    )
    question = asked(torch.randn(32, 32), torch.zeros(8, 32))
    found = modelled(reference, question, forwarded(traffic=[COUNTED]), "sm_90")
    assert [(one.subject, one.basis) for one in found.timings] == [
        (Subject.CANDIDATE, Basis.MODELLED), (Subject.EAGER, Basis.MODELLED),
    ]  # fmt: skip
    assert found.speedup is not None and (found.speedup.n, found.speedup.basis) == (1, Basis.MODELLED)
    assert (
        found.speedup.low <= found.speedup.value <= found.speedup.high and found.timings[0].detail["target"] == "sm_90"
    )
    assert found.timings[0].detail != found.timings[1].detail and loads == [{}] and found.over_others == {}
    reference.no_alternatives = lambda on_gpu: shipped
    both = modelled(reference, question, forwarded(traffic=[COUNTED]), "sm_90")
    assert [one.subject for one in both.timings][2:] == [Subject.SHIPPED] and loads == [{}] * 3
    assert both.over_others["shipped"].over is Subject.SHIPPED and not torch.backends.cudnn.allow_tf32
    with pytest.raises(Ended, match=r"time\.nothing_launched") as caught:
        modelled(reference, question, forwarded(traffic=[]), "sm_90")
    assert caught.value.verdict is Verdict.UNSUPPORTED


# -- who may judge again --


def tidied(
    monkeypatch, *, uses: int = 0, spent_s: float = 0.0, limit_s: int = 100, short: bool = False, **baseline: object
) -> tuple[bool, RefereeCache]:
    monkeypatch.setattr(referee_cache.resource, "getrlimit", lambda which: (limit_s, limit_s))
    monkeypatch.setattr(referee_cache.time, "process_time", lambda: spent_s)
    cache = RefereeCache(SimpleNamespace(device="cpu", boss=SimpleNamespace(send=print)))
    cache.uses, cache.questions = uses, "drawn"
    cache.reference = SimpleNamespace(was_short=short, lean=False, begin_anew=lambda: None)
    memory = SimpleNamespace(numel=lambda: baseline.get("bytes", 1))
    eager = SimpleNamespace(
        warm=baseline.get("warm", True), opened=baseline.get("opened", 1), arena=SimpleNamespace(memory=memory)
    )
    contacts = {"candidate": "c", "eager": eager}
    subjects = SimpleNamespace(
        contacts=contacts, fits={"eager": "fit"}, release=lambda *names: [contacts.pop(name) for name in names]
    )
    stays = cache.tidy(subjects)
    assert cache.questions is None and cache.uses == uses + 1 and list(contacts) == list(cache.kept)
    return stays, cache


def test_a_referee_has_its_share_of_uses_and_of_the_processor(monkeypatch):
    assert tidied(monkeypatch)[0] and tidied(monkeypatch, uses=48)[0] and not tidied(monkeypatch, uses=49)[0]
    assert tidied(monkeypatch, spent_s=50.0)[0] and not tidied(monkeypatch, spent_s=50.1)[0]
    assert tidied(monkeypatch, spent_s=1e9, limit_s=-1)[0], "no limit"
    assert not tidied(monkeypatch, short=True)[0]


@pytest.mark.parametrize(
    ("given", "stays"),
    [
        ({}, True),
        ({"warm": False}, False),
        ({"opened": 2}, False),
        ({"bytes": 1 << 30}, False),
        ({"bytes": (1 << 30) - 1}, True),
    ],
)
def test_a_baseline_stays_only_as_it_was_before_any_burst(monkeypatch, given, stays):
    assert list(tidied(monkeypatch, **given)[1].kept) == (["eager"] if stays else [])
