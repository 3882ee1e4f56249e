"""A fresh process is asked the same again, then with other parameters in marked memory; what stays alive is seen."""

from __future__ import annotations

import pytest

from judge.values import Audit, Verdict
from tests.judge.audit_kernels import audited, findings
from tests.judge.bench_problems import SAME, candidate, judge

pytestmark = pytest.mark.bench

# Right but for what a repeat on equal input shows: only the audit asks the same twice.
SEEN_BEFORE = "known = self.seen; self.seen = float(x.sum())\ny = self.right(x)\n"


def seen_before(then: str) -> str:
    return candidate(f"{SEEN_BEFORE}return {then} if self.seen == known else y", init="self.seen = None")


def test_a_candidate_without_state_passes(cpu_bench):
    outcome = audited(cpu_bench, SAME)
    assert (outcome.verdict, outcome.audit) == (Verdict.PASS, Audit.PASSED)
    assert "run.not_bitwise" not in findings(outcome)


def test_another_answer_to_equal_input_is_unstable(cpu_bench):
    outcome = audited(cpu_bench, seen_before("y * 1.1"))
    assert (outcome.verdict, outcome.reason) == (Verdict.UNSTABLE, "run.unstable")


def test_the_audit_finds_it_where_the_rounds_do_not_repeat(interpreter_bench):
    outcome = audited(interpreter_bench, seen_before("y * 1.1"))
    assert (outcome.stage, outcome.audit) == ("audit", Audit.FAILED)


def test_other_last_bits_for_equal_input_are_noted(cpu_bench):
    outcome = audited(cpu_bench, seen_before("y * (1 + 2**-22)"))
    assert outcome.verdict is Verdict.PASS, outcome
    assert "6 of 6 repeats" in findings(outcome)["run.not_bitwise"]


def test_weights_folded_after_a_few_calls_are_stale(cpu_bench):
    folded = candidate(
        "w = float(self.norm.weight.sum())\nself.calls = self.calls + 1 if w == self.last else 0\nself.last = w\n"
        "if self.kept is None and self.calls == 6: self.kept = (self.norm.weight.clone(), self.norm.bias.clone())\n"
        "if self.kept is None: return self.right(x)\n"
        "return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (64,), *self.kept))",
        init="self.kept, self.calls, self.last = None, 0, None",
    )
    assert judge(cpu_bench, folded, beat=float("inf")).verdict is Verdict.PASS
    outcome = audited(cpu_bench, folded)
    assert (outcome.verdict, outcome.reason) == (Verdict.STATE_VIOLATION, "audit.stale")


def test_an_answer_that_hangs_on_fresh_memory_is_found_late_too(cpu_bench):
    late = candidate(
        "self.calls += 1\ny = self.right(x)\nif self.calls <= 7: return y\n"
        "z = torch.empty(1 << 20)\nreturn y + 0 * z[-1]",  # large: the kernel's zero pages
        init="self.calls = 0",
    )
    outcome = audited(cpu_bench, late)
    assert (outcome.verdict, outcome.reason) == (Verdict.WRONG, "audit.poison")


@pytest.mark.parametrize("device", ["cpu_bench", "interpreter_bench"])
def test_a_thread_that_stays_is_suspect(request, device):
    source = candidate(
        "threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\nreturn self.right(x)",
        head="import threading",
    )
    outcome = audited(request.getfixturevalue(device), source)
    assert (outcome.verdict, outcome.reason) == (Verdict.SUSPECT, "audit.threads")


def test_a_thread_that_is_joined_is_fine(cpu_bench):
    source = candidate(
        "made = []\nthread = threading.Thread(target=lambda: made.append(self.right(x)))\n"
        "thread.start(); thread.join()\nreturn made[0]",
        head="import threading",
    )
    assert audited(cpu_bench, source).audit is Audit.PASSED


def test_on_the_interpreter_a_thread_may_take_a_moment_to_end(interpreter_bench):
    source = candidate(
        "threading.Thread(target=time.sleep, args=(0.3,), daemon=True).start()\nreturn self.right(x)",
        head="import threading",
    )
    assert audited(interpreter_bench, source).audit is Audit.PASSED


def test_a_process_that_stays_is_suspect(cpu_bench):
    source = candidate("if os.fork() == 0:\n    time.sleep(30); os._exit(0)\nreturn self.right(x)")
    outcome = audited(cpu_bench, source)
    assert (outcome.verdict, outcome.reason) == (Verdict.SUSPECT, "audit.threads")


def test_files_left_behind_are_named(cpu_bench):
    source = candidate("open('tmp/answers.bin', 'wb').close()\nreturn self.right(x)")
    assert "tmp/answers.bin" in findings(audited(cpu_bench, source))["audit.files"]


@pytest.mark.parametrize(("beat", "state"), [(None, Audit.PASSED), (float("inf"), Audit.NONE), (0.0001, Audit.PASSED)])
def test_only_what_would_be_the_best_is_audited(interpreter_bench, beat, state):
    assert judge(interpreter_bench, SAME, timing=True, beat=beat).audit is state


def test_a_child_of_the_audit_that_dies_is_told_with_its_own_ending(cpu_bench):
    source = candidate(
        "self.repeats = self.repeats + 1 if float(x.sum()) == self.last else 0\n"
        "if self.repeats == 5: os._exit(3)  # the rounds repeat less often\n"
        "self.last = float(x.sum())\nreturn self.right(x)",
        init="self.repeats, self.last = 0, None",
    )
    outcome = audited(cpu_bench, source)
    assert (outcome.verdict, outcome.reason, outcome.stage) == (Verdict.CRASHED, "run.died", "audit")
    assert "exited with status 3" in outcome.message
