"""The dearest baseline: timed once for a new best when somebody asks, and nobody's fault when it fails."""

from __future__ import annotations

import dataclasses

import pytest

from judge.bench.runner import Bench
from judge.evaluations import services as evaluations
from judge.evaluations.models import Measurement
from judge.values import Audit, Basis, Job, Limits, Outcome, ProblemSpec, Speedup, Subject, Verdict
from tests.judge.gpu_rows import gpu, passed, problem
from tests.judge.rounds_bench import answer
from tests.judge.rounds_bench import problem as source
from tests.judge.twin_bench import TwinBench
from tests.pages import client_of
from tests.search.makers import make_device

LIMITS = Limits(wall_s=120, stage_s=60)
UNCOMPILED = source("if torch.compiler.is_compiling(): os._exit(3)\nreturn F.gelu(x[0])", head="import os")
UNASKED = f"{UNCOMPILED}\n# Tried by nobody.\n"
PLAIN = source("return F.gelu(x[0])")
# Nothing is left to compile, which would take half a minute; test_baselines.py compiles for real.
TRACED = source("return gelu(x[0])", head="gelu = torch.compiler.disable(F.gelu)")
SPEEDUP = Speedup(2.0, 1.9, 2.1, 32, Basis.MEASURED, Subject.AUTOTUNE)


@pytest.fixture
def bench(cpu_bench):
    return cpu_bench


def evaluate(bench: Bench, text: str, number: int, **job: object) -> Outcome:
    candidate = answer(PLAIN) + f"# {number}\n"
    given = {"limits": LIMITS, "beat": 0.01, "baselines": frozenset({"autotune"}), **job}
    return bench.evaluate(Job(f"job {number}", ProblemSpec(text), candidate, **given))


def autotuned(outcome: Outcome) -> list[bool]:
    """Whether each max-autotune time of the outcome was known before."""
    return [bool(one.detail.get("cached")) for one in outcome.timings if one.subject is Subject.AUTOTUNE]


@pytest.mark.bench
@pytest.mark.slow
def test_a_baseline_that_fails_costs_no_best_and_is_not_tried_again(bench):
    first = evaluate(bench, UNCOMPILED, 1)
    assert (first.verdict, first.audit) == (Verdict.PASS, Audit.PASSED), first
    assert first.environment["baselines"]["autotune"].startswith("left out: ") and not autotuned(first)
    assert [(one.name, one.state) for one in first.stages][-1] == ("max_autotune", "warned")
    second = evaluate(bench, UNCOMPILED, 2)
    assert second.audit is Audit.PASSED and "autotune" not in second.environment["baselines"]


@pytest.mark.bench
def test_nobody_waits_for_it_unasked_or_without_a_new_best(bench):
    assert "autotune" not in evaluate(bench, UNASKED, 1, baselines=frozenset()).environment["baselines"]
    slow = evaluate(bench, UNASKED, 2, beat=float("inf"))
    assert slow.verdict is Verdict.PASS and "autotune" not in slow.environment["baselines"]


@pytest.mark.bench
@pytest.mark.slow
def test_it_is_timed_once_a_problem_and_shown_with_every_pass_from_then_on(bench):
    first = evaluate(bench, TRACED, 1)
    assert first.environment["baselines"]["autotune"] == "measured" and autotuned(first) == [False]
    assert first.over_others["autotune"].over is Subject.AUTOTUNE
    timing = next(one for one in first.timings if one.subject is Subject.AUTOTUNE)
    assert timing.detail["mode"] == "max-autotune" and timing.detail["precision"] == "strict"
    later = evaluate(bench, TRACED, 2, beat=float("inf"), baselines=frozenset())
    assert autotuned(later) == [True] and "autotune" in later.over_others


def test_only_a_pass_has_it_and_json_keeps_it():
    outcome = Outcome(Verdict.PASS, stage="timing", loads=True, over_others={"autotune": SPEEDUP})
    assert outcome.to_json()["speedup_autotune"]["value"] == 2.0 and outcome.to_json()["speedup_compile"] is None
    assert Outcome.from_json(outcome.to_json()) == outcome
    old = {name: value for name, value in outcome.to_json().items() if name != "speedup_autotune"}
    assert Outcome.from_json(old).over_others == {}, "stored before there was such a field"
    with pytest.raises(ValueError, match="only a pass"):
        dataclasses.replace(outcome, verdict=Verdict.WRONG, reason="value.mismatch", loads=True)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "device", "wanted"), [(True, gpu, True), (False, gpu, False), (True, make_device, False)]
)
def test_the_setting_asks_for_it_where_kernels_are_timed(settings, asked, device, wanted):
    settings.JUDGE_MAX_AUTOTUNE = asked
    bench = TwinBench()
    evaluations.evaluation_run(problem=problem(), device=device(), source="class ModelNew: ...", bench=bench)
    assert bench.jobs[0].baselines == (frozenset({"autotune"}) if wanted else frozenset())


@pytest.mark.django_db
def test_it_stands_beside_torch_compile_on_both_pages(settings):
    device, row = gpu(), problem()
    evaluation = passed(row, device, 243.7)
    before = client_of("viewer").get(f"/problems/{row.slug}/").content.decode()
    assert "only with JUDGE_MAX_AUTOTUNE=1" in before
    settings.JUDGE_MAX_AUTOTUNE = True
    assert "only with" not in client_of("viewer", "two").get(f"/problems/{row.slug}/").content.decode()
    Measurement.objects.create(
        evaluation=evaluation, subject="max-autotune", basis="measured", method="cuda_events", samples_us=[188.0] * 16,
        n=16, median_us=188.0, low_us=187.0, high_us=189.0, detail={"mode": "max-autotune"},
    )  # fmt: skip
    evaluation.report["speedup_autotune"] = {**SPEEDUP.__dict__, "value": 0.77, "low": 0.76, "high": 0.78}
    evaluation.save()
    html = client_of("viewer", "three").get(f"/problems/{row.slug}/").content.decode()
    assert "188 µs" in html and "187 µs – 189 µs" in html and "only with" not in html
    html = client_of("viewer", "four").get(f"/evaluations/{evaluation.pk}/").content.decode()
    assert "over torch.compile, max-autotune" in html and "188 µs" in html
