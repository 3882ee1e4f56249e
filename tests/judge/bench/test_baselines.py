"""Times of baselines and torch.compile's code outlive the process that made them, each for its own problem."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

from adaexplore_site import settings
from judge.bench.device.luck import DOUBTFUL, MOST_DF, OF_LAUNCHES
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.reports import Doing
from judge.bench.judging.completion import Ended, of_subject
from judge.bench.processes import baselines
from judge.bench.processes.baselines import LUCK, Baselines, KnownTimes
from judge.bench.processes.cores import CorePlan
from judge.bench.processes.jobs import EvaluationPlan
from judge.bench.processes.subject_starter import MODES, Mode
from judge.values import ALTERNATIVES, BASELINES, Basis, Job, Outcome, ProblemSpec, Subject, Timing, Verdict, When

GROUP = "__grp__k.json"
PROBLEM, OTHER = ProblemSpec("class Model: ..."), ProblemSpec("class Model: ...", "large")
TIME = Timing(Subject.AUTOTUNE, Basis.MEASURED, "cuda_events", (1.0, 2.0, 3.0), 2.0, 1.0, 3.0, {"mode": "max-autotune"})


@pytest.fixture
def store(tmp_path):
    return Baselines(tmp_path / "baselines")


@pytest.fixture
def child(tmp_path):
    folder = tmp_path / "child"
    (folder / "inductor" / "fxgraph" / "ab").mkdir(parents=True)
    (folder / "inductor" / "fxgraph" / "ab" / "graph").write_bytes(b"graph")
    (folder / "triton" / ("A" * 32)).mkdir(parents=True)
    (folder / "triton" / ("A" * 32) / "k.cubin").write_bytes(b"code")
    (folder / "triton" / ("A" * 32) / "k.json").write_text("{}")
    (folder / "triton" / ("A" * 32) / "__grp__k.json").write_text('{"child_paths": {"k.json": "/gone/k.json"}}')
    return folder


def test_a_measurement_is_there_after_a_restart(store):
    store.keep(PROBLEM, TIME)
    assert Baselines(store.root).time(PROBLEM, Subject.AUTOTUNE) == TIME


def test_modes_and_cases_are_apart(store):
    store.keep(PROBLEM, TIME)
    assert store.time(PROBLEM, Subject.COMPILE) is None and store.time(OTHER, Subject.AUTOTUNE) is None


def test_a_torn_or_impossible_measurement_counts_for_nothing(store):
    store.keep(PROBLEM, TIME)
    [path] = store.root.rglob("time.json")
    for text in ("{", "{}", path.read_text().replace("2.0", "-2.0")):
        path.write_text(text)
        assert store.time(PROBLEM, Subject.AUTOTUNE) is None


def test_forgetting_keeps_the_code(store, child, tmp_path):
    store.keep(PROBLEM, TIME)
    store.take(PROBLEM, Subject.AUTOTUNE, child)
    store.forget(PROBLEM)
    assert store.time(PROBLEM, Subject.AUTOTUNE) is None
    assert store.seed(PROBLEM, Subject.AUTOTUNE, tmp_path / "next")


def test_code_goes_to_the_next_child_of_the_same_problem_only(store, child, tmp_path):
    assert store.take(PROBLEM, Subject.COMPILE, child)
    assert store.seed(PROBLEM, Subject.COMPILE, tmp_path / "next")
    copied = {str(path.relative_to(tmp_path / "next")) for path in (tmp_path / "next").rglob("*") if path.is_file()}
    kernel = f"triton/{'A' * 32}"
    assert copied == {"inductor/fxgraph/ab/graph", *(f"{kernel}/{name}" for name in ("k.cubin", "k.json", GROUP))}
    assert "/gone" not in (tmp_path / "next" / kernel / GROUP).read_text(), "Triton's lists hold paths"
    assert not store.seed(OTHER, Subject.COMPILE, tmp_path / "other") and not (tmp_path / "other").exists()


def test_links_are_not_followed(store, child, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (child / "inductor" / "link").symlink_to(tmp_path / "secret")
    (child / "inductor" / "folder").symlink_to(tmp_path)
    store.take(PROBLEM, Subject.COMPILE, child)
    assert {path.name for path in store.root.rglob("*") if path.is_file()} == {"graph", "k.cubin", "k.json"}


def test_nothing_compiled_keeps_nothing(store, tmp_path):
    (tmp_path / "empty").mkdir()
    assert not store.take(PROBLEM, Subject.COMPILE, tmp_path / "empty")
    assert not store.seed(PROBLEM, Subject.COMPILE, tmp_path / "next")


def test_too_much_code_is_not_kept(store, child, monkeypatch):
    monkeypatch.setattr(baselines, "MOST_BYTES", 3)
    assert not store.take(PROBLEM, Subject.COMPILE, child)
    assert not [path for path in store.root.rglob("*") if path.is_file()]


def test_the_code_used_longest_ago_makes_room(store, child, monkeypatch):
    store.keep(PROBLEM, TIME)
    store.take(PROBLEM, Subject.AUTOTUNE, child)
    monkeypatch.setattr(baselines, "KEPT_BYTES", 16)
    store.take(OTHER, Subject.AUTOTUNE, child)
    assert store.time(PROBLEM, Subject.AUTOTUNE) == TIME, "times stay"
    assert len(list(store.root.rglob("graph"))) == 1


def passed(*timings: Timing, **notes: str) -> Outcome:
    return Outcome(Verdict.PASS, stage="timing", loads=True, timings=timings, environment={"baselines": notes})


def test_every_baseline_has_a_name_a_subject_and_a_place_of_its_own():
    assert len({one.subject for one in BASELINES.values()}) == len({one.label for one in ALTERNATIVES}) + 1
    for name, one in BASELINES.items():
        assert name == one.name and MODES[name] == Mode("problem", "plain", name)
        assert (name == "eager") == (not one.stage), "only the reference as it is may refuse a problem"
        assert (one.when is When.BEST) == (one.limit_s > 0) == bool(one.stage)
        fault = of_subject(SubjectFailed(f"{name}#2", "exception", "timed", "no"), "timing")
        assert isinstance(fault, Ended) and fault.reason == "problem.raises"
        assert hasattr(settings, one.setting or "DEBUG")


@pytest.mark.parametrize("kept", [True, False])
def test_the_luck_of_processes_is_remembered_by_problem_and_joined(store, kept):
    known = KnownTimes(lambda: store if kept else None)
    job = Job("one", PROBLEM, "class ModelNew: ...")

    def told(row: object) -> None:
        known.remember(job, dataclasses.replace(passed(TIME), environment={LUCK: row}))

    told({"df": 3, "variance": 0.004})
    told({"df": 1, "variance": 0.002})
    again = KnownTimes(lambda: store) if kept else known
    found = again.luck(PROBLEM)
    assert found is not None and (found.df, found.variance) == (4, pytest.approx(0.0035))
    assert again.luck(OTHER) is None
    for broken in (
        None,
        3,
        {},
        {"df": 1},
        {"df": 0, "variance": 1},
        {"df": 1, "variance": "nan"},
        {"df": [], "variance": 1},
    ):
        told(broken)
    assert again.luck(PROBLEM) == found, "what is no luck changes nothing"
    for _ in range(20):
        told({"df": 30, "variance": 0.004})
    most = again.luck(PROBLEM)
    assert most is not None and most.df == MOST_DF
    luck = {LUCK: {"df": 3, "variance": 9.0}}
    known.remember(dataclasses.replace(job, problem=OTHER), dataclasses.replace(passed(TIME), environment=luck))
    erratic = again.luck(OTHER)
    usual = DOUBTFUL * OF_LAUNCHES.variance
    assert erratic is not None and erratic.variance == usual, "one candidate does not end all later races"
    bench = SimpleNamespace(
        device="cuda:0", times=again, alternatives=True, kept_referees=SimpleNamespace(most=0),
        cores=CorePlan(why="not divided: a test"),
    )  # fmt: skip
    assert EvaluationPlan(bench, job)._questions()["luck"] == dataclasses.asdict(most)


def test_a_time_is_asked_for_once_and_only_as_the_table_says():
    known = KnownTimes(lambda: None)
    job = Job("one", PROBLEM, "class ModelNew: ...")
    known.remember(job, passed(dataclasses.replace(TIME, subject=Subject.CANDIDATE), compile="left out: no"))
    assert not known.unknown(PROBLEM, Subject.COMPILE), "it was tried, and there is no time"
    assert known.unknown(PROBLEM, Subject.AUTOTUNE), "nobody has tried"
    known.remember(job, dataclasses.replace(passed(TIME), environment={"baselines": 3}))
    assert known.unknown(PROBLEM, Subject.AUTOTUNE), "what is no list of notes says nothing"
    known.remember(job, passed(TIME, autotune="measured"))
    assert known.time(PROBLEM, Subject.AUTOTUNE) == TIME and known.unknown(OTHER, Subject.AUTOTUNE)


UNASKED = [one.name for one in ALTERNATIVES if not one.setting]


@pytest.mark.parametrize(("beat", "late"), [(1.5, True), (None, False), (0.0, False), (float("inf"), False)])
def test_the_best_so_far_takes_part_from_the_start_only_where_every_candidate_meets_it(beat, late):
    bench = SimpleNamespace(
        device="cuda:0",
        times=KnownTimes(lambda: None),
        alternatives=True,
        kept_referees=SimpleNamespace(most=0),
        cores=CorePlan(why="not divided: a test"),
    )
    plan = EvaluationPlan(bench, Job("one", PROBLEM, "class ModelNew: ...", beat=beat, incumbent="the best"))
    assert ("incumbent" in plan._subjects()) is not late and plan._questions()["screen"] is late
    alone = EvaluationPlan(bench, Job("one", PROBLEM, "class ModelNew: ...", beat=beat))
    assert "incumbent" not in alone._subjects() and alone._questions()["screen"] is False


@pytest.mark.parametrize(
    ("device", "given", "best"),
    [
        ("cuda:0", {}, UNASKED),
        ("cuda:0", {"baselines": frozenset({"autotune"})}, [*UNASKED, "autotune"]),
        ("cuda:0", {"baselines": frozenset({"autotune"}), "timing": False}, []),
        ("interpreter", {"baselines": frozenset({"autotune"})}, []),
    ],
)
def test_a_plan_announces_what_is_to_be_timed_beside_a_new_best_and_starts_none_of_it(device, given, best):
    bench = SimpleNamespace(
        device=device,
        times=KnownTimes(lambda: None),
        alternatives=True,
        kept_referees=SimpleNamespace(most=0),
        cores=CorePlan(why="not divided: a test"),
    )
    plan = EvaluationPlan(bench, Job("one", PROBLEM, "class ModelNew: ...", **given))
    assert [name for name in plan._subjects() if name in BASELINES and name != "eager"] == []
    asked = plan._questions()
    assert (asked["beside_best"], asked["known_us"]) == (best, {})
    plan.hear(Doing("max_autotune"), None)
    plan.hear(Doing("max_autotune"), None)
    assert plan.waited_s() == pytest.approx(300.0 if "autotune" in best else 0.0, abs=1.0)


# -- ahead of a best --

CONVOLVES = ProblemSpec(
    """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(8, 8, 3)

    def forward(self, x):
        return self.conv(x).relu()


def get_inputs():
    return [torch.randn(2, 8, 24, 24)]


def get_init_inputs():
    return []
"""
)


@pytest.mark.bench
def test_baselines_are_timed_with_the_reference_as_candidate_and_only_once(cpu_bench, monkeypatch):
    wanted = [BASELINES["channels_last"]]
    unknown = lambda plan: [one for one in wanted if cpu_bench.times.unknown(plan.job.problem, one.subject)]  # noqa: E731
    monkeypatch.setattr(EvaluationPlan, "untimed", unknown)
    (found,) = cpu_bench.time_baselines(CONVOLVES)
    assert found.subject is Subject.CHANNELS_LAST and found.n >= 8
    assert cpu_bench.time_baselines(CONVOLVES) == ()
    candidate = CONVOLVES.source.replace("class Model(", "class ModelNew(")
    later = cpu_bench.evaluate(Job("later", CONVOLVES, candidate, beat=float("inf")))
    assert later.verdict is Verdict.PASS and "channels_last" in later.over_others, later
    assert later.environment["baselines"]["channels_last"] == "known from before"


@pytest.mark.bench
def test_a_reference_that_is_no_right_candidate_gives_no_times(cpu_bench, monkeypatch):
    monkeypatch.setattr(EvaluationPlan, "untimed", lambda plan: [BASELINES["channels_last"]])
    source = CONVOLVES.source.replace("def get_inputs", "torch.relu(torch.ones(1))\n\n\ndef get_inputs")
    odd = ProblemSpec(
        source.replace(".relu()", ".relu() * SIZE").replace("import torch", "import torch\nSIZE = 1", 1)
        + "\n\ndef get_cases():\n    return {'large': {'SIZE': 2}}\n",
        "large",
    )
    assert cpu_bench.time_baselines(odd) == ()
