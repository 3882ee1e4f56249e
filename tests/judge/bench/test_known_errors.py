"""Every known error is provoked: by a kernel that is compiled or run, by the whole judge, or in its exact words."""

from __future__ import annotations

import pytest

from judge.bench.runner import Bench
from judge.values import DEFAULT_POLICY, Gradients, Job, Limits, Policy, ProblemSpec, Verdict
from memory.patterns.table import BY_CODE, match_of
from search.proposers.exchange import parse_reply
from search.proposers.protocol import Task
from tests.judge.judged_provocations import JUDGED, REPLIES, TEXTS, WITH_GRADIENTS
from tests.judge.provocations import COMPILE, INTERPRET
from tests.judge.triton_child import failure


def test_every_pattern_has_something_that_provokes_it() -> None:
    provoked = {*COMPILE, *INTERPRET, *JUDGED, *WITH_GRADIENTS, *TEXTS, *REPLIES}
    assert provoked == set(BY_CODE)
    assert not set(TEXTS) & {
        *COMPILE,
        *INTERPRET,
        *JUDGED,
        *WITH_GRADIENTS,
        *REPLIES,
    }  # exact words are the last resort


@pytest.mark.bench
@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_kernels_provoke_them(mode: str) -> None:
    found = failure("provoked.py", mode, "check_every_kernel_provokes_its_error")
    assert found == "", found


@pytest.mark.bench
@pytest.mark.parametrize("code", [*JUDGED, *WITH_GRADIENTS])
def test_the_judge_says_it(cpu_bench: Bench, code: str) -> None:
    policy = Policy(gradients=Gradients.ALL) if code in WITH_GRADIENTS else DEFAULT_POLICY
    problem, source = {**JUDGED, **WITH_GRADIENTS}[code]
    spec = ProblemSpec(problem, None, policy)
    outcome = cpu_bench.evaluate(Job(f"job-{code}", spec, source, limits=Limits(wall_s=300, stage_s=120)))
    found = match_of(outcome.reason, outcome.message)
    assert outcome.verdict is not Verdict.PASS
    assert found is not None and found.pattern.code == code, (outcome.verdict, outcome.reason, outcome.message)


@pytest.mark.parametrize("code", TEXTS)
def test_its_exact_words_are_known(code: str) -> None:
    found = match_of(*TEXTS[code])
    assert found is not None and found.pattern.code == code


@pytest.mark.parametrize("code", REPLIES)
def test_the_parser_of_replies_says_it(code: str) -> None:
    text, patches = REPLIES[code]
    base = "class ModelNew: ...\n" if patches else None
    kind = "small" if patches else "large"
    task = Task(kind, "p", "class Model: ...", graph=None, device={}, context_kernels=(), seed=1, number=1, base=base)
    reply = parse_reply(task, text)
    found = match_of(reply.reason, reply.message)
    assert found is not None and found.pattern.code == code, reply
