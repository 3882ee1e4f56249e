"""Every entry of get_cases() is a correctness case: asked of each candidate, and of the reference by the preflight."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from judge.bench.deciding import declared_check
from judge.values import Outcome, Verdict
from tests.judge.audit_kernels import audited, sealed
from tests.judge.bench.test_audit_sealed import REFUSES_ELSEWHERE, WRONG_ELSEWHERE, sized
from tests.judge.bench_problems import PROBLEM, SAME, candidate, judge
from tests.judge.problem_texts import examine, module

pytestmark = pytest.mark.bench
CASES = '{"gpu": {"SIZE": 1 << 20}, "wide": {"SIZE": 96}, "huge": {"SIZE": 1 << 34}}'
MANY = PROBLEM + f"\n\ndef get_cases():\n    return {CASES}\n"


def rows(outcome: Outcome) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for record in outcome.cases:
        found.setdefault(record.case, []).append(record.detail)
    return found


def test_a_candidate_is_asked_every_case_that_fits(cpu_bench):
    outcome = audited(cpu_bench, SAME, problem=MANY)
    assert outcome.verdict is Verdict.PASS
    assert next(stage.detail for stage in outcome.stages if stage.name == "cases") == "1 right, 2 left out"
    told = rows(outcome)
    assert len(told["wide"]) == 2 and told["gpu"] == ["left out: it is made for GPUs"]
    assert "the interpreter takes" in told["huge"][0]


@pytest.mark.parametrize("source", [WRONG_ELSEWHERE, REFUSES_ELSEWHERE])
def test_what_is_wrong_in_one_case_is_no_pass_and_its_name_is_told(cpu_bench, source):
    outcome = audited(cpu_bench, sized(source), problem=MANY)
    assert outcome.verdict in (Verdict.WRONG, Verdict.CRASHED) and outcome.stage == "correctness"
    assert outcome.message.startswith("in case 'wide' of get_cases(): ")
    assert audited(cpu_bench, sized(source)).verdict is Verdict.PASS


def test_the_candidate_is_imported_while_the_reference_answers(monkeypatch):
    order = []

    def refuses(*_):
        order.append("reference")
        raise ValueError

    @contextmanager
    def with_case(loaded, name):
        yield loaded

    monkeypatch.setattr(declared_check, "Reference", refuses)
    monkeypatch.setattr(declared_check, "with_case", with_case)
    whereabouts = SimpleNamespace(device_lost=lambda: False)
    reference: Any = SimpleNamespace(loaded=None, policy=None, whereabouts=whereabouts)
    setting: Any = SimpleNamespace(reference=reference, device="cpu")
    child: Any = SimpleNamespace(start=lambda: order.append("child"))
    assert declared_check.DeclaredCheck(setting, []).ask("wide", child, 5.0).startswith("the reference cannot be run")
    assert order == ["child", "reference"]


@pytest.mark.parametrize("excuse", ["raise MemoryError", "time.sleep(60)"])
def test_a_larger_case_is_no_excuse_where_the_reference_needs_little(cpu_bench, excuse):
    source = candidate(f"if x.shape[-1] != 64: {excuse}\nreturn self.right(x)")
    problem = PROBLEM + "\n\ndef get_cases():\n    return {'wide': {'SIZE': 4096}}\n"
    outcome = judge(cpu_bench, sized(source), problem=problem, wall_s=20, stage_s=2)
    reason = "run.oom" if "Memory" in excuse else "run.timeout"
    assert (outcome.reason, outcome.message[:13]) == (reason, "in case 'wide"), outcome


def test_the_order_of_cases_is_drawn(monkeypatch):
    asked = []
    monkeypatch.setattr(declared_check.DeclaredCheck, "ask", lambda check, name, *rest: asked.append(name) or "")
    cases: Any = dict.fromkeys("abcdefgh", "")
    setting: Any = SimpleNamespace(reference=SimpleNamespace(lean=False))
    orders = set()
    for _ in range(20):
        asked.clear()
        assert declared_check.DeclaredCheck(setting, []).run(cases, 5.0) == "8 right"
        assert sorted(asked) == [*"abcdefgh"]
        orders.add(tuple(asked))
    assert len(orders) > 1


@pytest.mark.parametrize(
    ("lean", "counted", "children"), [(False, "", 1), (False, "b", 2), (False, "abc", 3), (True, "", 3)]
)
def test_cases_whose_launches_are_counted_or_that_need_the_memory_have_children_of_their_own(
    monkeypatch, lean, counted, children
):
    used = set()
    monkeypatch.setattr(declared_check.DeclaredCheck, "ask", lambda check, name, child, left_s: used.add(child) or "")
    setting: Any = SimpleNamespace(reference=SimpleNamespace(lean=lean))
    counting = declared_check.Counting(1, lambda answered: None)
    check = declared_check.DeclaredCheck(setting, [], tuple(counted), counting)
    assert check.run(dict.fromkeys("abc", ""), 5.0) == "3 right" and len(used) == children


THREE = PROBLEM + "\n\ndef get_cases():\n    return {name: {'SIZE': 80 + 16 * n} for n, name in enumerate('abc')}\n"
KEEPS_THE_FIRST_SIZE = candidate(
    "SIZES.append(x.shape[-1])\ny = self.right(x)\nreturn y if x.shape[-1] == SIZES[0] else y * 1.5", head="SIZES = []"
)


def test_what_a_candidate_keeps_of_one_case_for_the_next_is_no_pass(cpu_bench):
    outcome = judge(cpu_bench, sized(KEEPS_THE_FIRST_SIZE), problem=THREE)
    assert (outcome.verdict, outcome.reason) == (Verdict.STATE_VIOLATION, "state.other_case"), outcome
    assert outcome.message.startswith("in case ") and "right in a process of its own" in outcome.message


def test_an_audited_pass_and_a_loser_start_few_processes(cpu_bench):
    """Each has a CUDA context on a GPU. One for each case and each way of taking launches away were 14 and 5."""
    sets = [sealed(SIZE=16 + number) for number in range(6)]
    best = audited(cpu_bench, SAME, problem=THREE, sealed=sets)
    assert best.verdict is Verdict.PASS and len(best.cases) >= 3 * 2
    assert set(best.environment["children"]) == {"referee", "candidate", "case#1", "audit", "audit.noop", "sealed#1"}
    assert next(stage.detail for stage in best.stages if stage.name == "audit.sealed") == "6 right"
    loser = judge(cpu_bench, SAME, problem=THREE)
    assert len(loser.environment["children"]) <= 3


def test_without_other_cases_there_is_no_such_stage(cpu_bench):
    assert "cases" not in [stage.name for stage in audited(cpu_bench, SAME).stages]


def declaring(cases: str, forward: str = "return x * 2") -> str:
    return module(forward) + f"\ndef get_cases():\n    return {cases}\n"


def test_the_preflight_runs_each_case_and_tells_its_shapes(tmp_path):
    found = examine(declaring('{"gpu": {"SIZE": 1 << 34}, "wide": {"SIZE": 48}}'), tmp_path)
    assert found.state != "refused" and found.stages[-1].detail == "1 of 2 are asked here"
    told = {row["name"]: (row["inputs"][0]["shape"], row["left_out"]) for row in found.declared}
    assert told == {"gpu": ([1 << 34, 32], "it is made for GPUs"), "wide": ([48, 32], "")}


def test_the_evaluated_case_is_told_first(tmp_path):
    found = examine(declaring('{"a": {"SIZE": 4}, "interpreter": {"SIZE": 8}}'), tmp_path, case="interpreter")
    assert [(row["name"], row["inputs"][0]["shape"][0]) for row in found.declared] == [("interpreter", 8), ("a", 4)]


def test_a_case_on_which_the_reference_fails_refuses_the_problem(tmp_path):
    source = declaring('{"odd": {"SIZE": 7}}', "assert x.shape[0] % 2 == 0, 'even rows only'\nreturn x * 2")
    found = examine(source, tmp_path)
    assert (found.state, found.reason) == ("refused", "problem.raises")
    assert "in case 'odd'" in found.message and "even rows only" in found.message


def test_the_preflight_tells_weights_where_there_are_any(tmp_path):
    found = examine(declaring('{"gpu": {"SIZE": 1 << 34, "weight": 3}, "wide": {"SIZE": 48}}'), tmp_path)
    assert {row["name"]: row["weight"] for row in found.declared} == {"gpu": 3.0, "wide": 0.0}
    assert found.stages[-1].state == "warned" and "the evaluated case alone is timed here" in found.stages[-1].detail
    plain = examine(declaring('{"wide": {"SIZE": 48}}'), tmp_path)
    assert "weight" not in plain.declared[0]


def test_cases_with_a_weight_are_asked_before_others(tmp_path):
    cases = ", ".join(f'"c{number}": {{"SIZE": {number}}}' for number in range(1, 12))
    found = examine(declaring(f'{{{cases}, "last": {{"SIZE": 48, "weight": 1}}}}'), tmp_path)
    asked = [row["name"] for row in found.declared if not row["left_out"]]
    assert len(asked) == 8 and asked[0] == "last"
