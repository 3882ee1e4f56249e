"""The audit finds out whose work an answer is, and the library policy says what that means."""

from __future__ import annotations

import pytest

from judge.bench.foreign.sources import defined_kernels
from judge.values import Audit, Library, Verdict
from tests.judge.audit_kernels import (
    FELL_BACK,
    HALVES,
    LAUNCHED_IN_VAIN,
    NEVER_LAUNCHED,
    WITH_A_WAY_OUT,
    audited,
    findings,
)
from tests.judge.bench_problems import SAME, TRITON, candidate

pytestmark = pytest.mark.bench


def test_a_kernel_that_does_the_work_passes_with_nothing_to_say(interpreter_bench):
    outcome = audited(interpreter_bench, TRITON)
    assert (outcome.verdict, outcome.audit) == (Verdict.PASS, Audit.PASSED)
    assert findings(outcome) == {}
    assert [stage.name for stage in outcome.stages if stage.name.startswith("audit.")] == [
        "audit.state",
        "audit.launches",
        "audit.share",
        "audit.sealed",
        "audit.text",
    ]


@pytest.mark.parametrize("library", [Library.LABEL, Library.REFUSE])
def test_launches_that_the_answer_does_not_need_are_dishonest(interpreter_bench, library):
    outcome = audited(interpreter_bench, LAUNCHED_IN_VAIN, library=library)
    assert (outcome.verdict, outcome.reason, outcome.stage) == (Verdict.DISHONEST, "audit.noop_survives", "audit")
    assert outcome.audit is Audit.FAILED
    assert "scale" in outcome.message


def test_where_library_compute_is_allowed_they_are_only_noted(interpreter_bench):
    outcome = audited(interpreter_bench, LAUNCHED_IN_VAIN, library=Library.ALLOW)
    assert (outcome.verdict, outcome.audit) == (Verdict.PASS, Audit.PASSED)
    assert "do nothing" in findings(outcome)["kernel.decoy"] or "far_away" in findings(outcome)["kernel.decoy"]


@pytest.mark.parametrize("device", ["cpu_bench", "interpreter_bench"])
def test_a_silent_fallback_is_found(request, device):
    outcome = audited(request.getfixturevalue(device), FELL_BACK)
    assert (outcome.verdict, outcome.reason) == (Verdict.DISHONEST, "audit.fallback")
    assert "far_away" in outcome.message


def test_a_fallback_that_is_not_taken_is_a_label(interpreter_bench):
    outcome = audited(interpreter_bench, WITH_A_WAY_OUT)
    assert outcome.verdict is Verdict.PASS, outcome
    assert set(findings(outcome)) == {"library.fallback"}


@pytest.mark.parametrize("device", ["cpu_bench", "interpreter_bench"])
@pytest.mark.parametrize(
    ("library", "codes"), [(Library.ALLOW, {"kernel.decoy"}), (Library.LABEL, {"kernel.decoy", "library.share"})]
)
def test_torch_alone_is_labelled_and_kernels_beside_it_are_decoys(request, device, library, codes):
    outcome = audited(request.getfixturevalue(device), NEVER_LAUNCHED, library=library)
    assert outcome.verdict is Verdict.PASS, outcome
    assert set(findings(outcome)) == codes
    assert "far_away, scale" in findings(outcome)["kernel.decoy"]


@pytest.mark.parametrize("device", ["cpu_bench", "interpreter_bench"])
def test_torch_alone_is_refused_where_the_problem_refuses_libraries(request, device):
    outcome = audited(request.getfixturevalue(device), SAME, library=Library.REFUSE)
    assert (outcome.verdict, outcome.reason) == (Verdict.DISHONEST, "audit.foreign_kernels")


def test_a_fig_leaf_shows_its_share_of_the_time(interpreter_bench):
    outcome = audited(interpreter_bench, HALVES)
    assert outcome.verdict is Verdict.PASS, outcome
    share = next(finding for finding in outcome.findings if finding.code == "library.share")
    assert 0 < share.data["share"] < 0.3
    assert share.data["basis"] == "modelled"
    assert any(name.startswith("aten") for name, _ in share.data["foreign"])


def test_a_fig_leaf_is_refused_where_the_problem_refuses_libraries(interpreter_bench):
    outcome = audited(interpreter_bench, HALVES, library=Library.REFUSE)
    assert (outcome.verdict, outcome.reason) == (Verdict.DISHONEST, "audit.foreign_kernels")
    assert "in its own Triton kernels" in outcome.message


COMPILED = candidate(
    "if self.made is None: self.made = torch.compile(self.right, backend='eager')\nreturn self.made(x)",
    init="self.made = None",
)


@pytest.mark.parametrize(
    ("library", "verdict"),
    [(Library.ALLOW, Verdict.PASS), (Library.LABEL, Verdict.PASS), (Library.REFUSE, Verdict.DISHONEST)],
)
def test_a_compiler_inside_is_labelled_or_refused(cpu_bench, library, verdict):
    outcome = audited(cpu_bench, COMPILED, library=library)
    assert outcome.verdict is verdict, outcome
    assert ("library.compiler" in findings(outcome)) == (library is Library.LABEL)


def test_kernels_are_read_off_the_text_with_the_helpers_they_use():
    source = (
        "import triton\n@triton.jit\ndef helper(x): return x\n"
        "@triton.autotune(configs=[], key=[])\n@triton.jit(debug=True)\ndef outer(p): return helper(p)\n"
        "def plain(x): return x\n"
    )
    assert defined_kernels(source) == {"helper": [], "outer": ["helper"]}


def test_text_that_does_not_parse_defines_no_kernel():
    assert defined_kernels("@triton.jit\ndef (:") == {}
