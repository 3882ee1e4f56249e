"""Whatever a child answers to the real referee, and wherever it ends: a verdict of whose code runs in it. Never a fault
of the judge."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from judge.bench.exchange import seal
from judge.bench.exchange.wire import MAX_MESSAGE, WireClosed, WireGarbage, WireTimeout
from judge.values import BLAMING, Outcome, Verdict
from tests.judge.bench_problems import believed
from tests.judge.lying_children import Bench, honest
from tests.judge.mutations import JSON, ODD, mutated
from tests.judge.replies import FAULTY, HONEST

OF_CANDIDATE = {*BLAMING, Verdict.OUT_OF_MEMORY, Verdict.UNSUPPORTED, Verdict.PASS}
OPS = ["arena", "construct", "parameters", "forward", "timed", "burst_ready", "burst"]
ENDS: list[Exception] = [WireClosed("gone"), WireGarbage("not JSON"), WireTimeout("late")]
PLACES = st.one_of(
    st.tuples(st.just("candidate"), st.sampled_from(["load", *OPS])),
    st.tuples(st.sampled_from(["candidate#2", "audit", "audit.noop"]), st.sampled_from(["load", *OPS])),
    st.tuples(st.just("recorder"), st.sampled_from(["load", "arena", "construct", "parameters", "forward"])),
)


def lies(op: str) -> st.SearchStrategy[Any]:
    """A reply's fields in place of the honest ones, or how the child ends instead of replying."""
    known = HONEST[op] | FAULTY
    field = st.sampled_from([*known, "number", "structure", "error"])
    value = st.sampled_from(ODD) | JSON | st.sampled_from(list(known)).flatmap(lambda key: mutated({"x": known[key]}))
    return st.dictionaries(field, value, min_size=1, max_size=2) | st.sampled_from(ENDS)


class Once:
    """Tells its lie in place of one answer of one child; `told` says whether it came to that."""

    def __init__(self, child: str, op: str, lie: Any, nth: int) -> None:
        self.child, self.op, self.lie, self.left, self.told = child, op, lie, nth, False

    def __call__(self, name: str, op: str, reply: dict[str, Any]) -> dict[str, Any]:
        if (name, op) != (self.child, self.op) or self.told:
            return reply
        self.left -= 1
        if self.left >= 0:
            return reply
        self.told = True
        if isinstance(self.lie, Exception):
            raise self.lie
        return {**reply, **self.lie}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        yield Bench(tmp_path_factory.mktemp("lying"), patch)


def arrives(outcome: Outcome) -> Outcome:
    """As the runner gets it: in one message, and to be stored."""
    message = json.dumps(seal.signed(outcome.to_json(), {"key": "ab" * 32, "nonce": "n"}))
    assert len(message) < MAX_MESSAGE
    found = Outcome.from_json(json.loads(message)["verdict"])
    for text in (found.stage, found.reason, found.message):
        text.encode()
        assert "\x00" not in text
    return found


FEW = settings(
    max_examples=10, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@pytest.mark.parametrize("modelled", [False, True], ids=["measured", "modelled"])
@pytest.mark.quiet
def test_an_honest_child_is_judged(bench, modelled):
    outcome = arrives(believed(lambda: bench.judge(honest, modelled=modelled)))
    assert outcome.verdict in (Verdict.PASS, Verdict.DISHONEST)


@pytest.mark.parametrize("modelled", [False, True], ids=["measured", "modelled"])
def test_a_lie_of_the_candidate_is_its_verdict(bench, modelled):
    @FEW
    @given(PLACES, st.data(), st.integers(0, 3))
    def check(place, data, nth):
        told = Once(*place, data.draw(lies(place[1])), nth)
        outcome = arrives(bench.judge(told, modelled=modelled))
        assert outcome.verdict in OF_CANDIDATE, (outcome.verdict, outcome.message)

    check()


@FEW
@given(st.sampled_from(["eager", "eager#2"]), st.sampled_from(OPS), st.data(), st.integers(0, 3))
def test_a_lie_of_the_baseline_is_the_problems(bench, child, op, data, nth):
    told = Once(child, op, data.draw(lies(op)), nth)
    outcome = arrives(bench.judge(told))
    assert outcome.verdict in (Verdict.PASS, Verdict.REFUSED_PROBLEM) or outcome.reason == "time.mismatch", outcome


@pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
@pytest.mark.parametrize(
    ("child", "op", "modelled"),
    [
        ("candidate", "load", False),
        ("candidate#2", "burst", False),
        ("candidate#2", "load", False),
        ("audit", "load", True),
        ("audit.noop", "load", True),
        ("recorder", "forward", True),
    ],
)
@pytest.mark.quiet
def test_who_ends_anywhere_ends_itself(bench, child, op, modelled, end):
    """Among them: where launches are rewired, in a burst, in the compile recorder, in the second process."""
    told = Once(child, op, end, 0)
    outcome = arrives(bench.judge(told, modelled=modelled))
    if not told.told:  # a second process is started only where the times are believed
        outcome = arrives(believed(lambda: bench.judge(told, modelled=modelled)))
    assert told.told
    quiet = child == "audit.noop" and not isinstance(end, WireClosed)  # no right answer came of it
    assert outcome.verdict in (OF_CANDIDATE if quiet else OF_CANDIDATE - {Verdict.PASS}), outcome
    if isinstance(end, WireClosed):
        assert outcome.reason in ("load.died", "run.died") and outcome.environment.get("failed_child", child) == child


@pytest.mark.parametrize(
    ("op", "lie"),
    [
        ("forward", {"traffic": [{"name": [], "origin": "triton"}]}),
        ("forward", {"traffic": 10**400}),
        ("construct", {"state": [{"name": "norm.weight", "kind": "parameter", "shape": [64], "stride": [1]}] * 500}),
        ("timed", {"us": 10**400}),
        ("timed", {"us": float("nan")}),
        ("timed", {"host_us": 10**400}),
        ("parameters", {"error": {"kind": "too_large", "message": "the problem's arguments do not fit"}}),
        ("forward", {"error": {"kind": "load", "reason": "\ud800", "message": "\x00"}}),
    ],
    ids=str,
)
def test_what_once_made_the_judge_fault_is_dishonest(bench, op, lie):
    told = Once("candidate", op, lie, 0)
    outcome = arrives(bench.judge(told))
    assert told.told and (outcome.verdict, outcome.reason) == (Verdict.DISHONEST, "tamper.channel"), outcome


@pytest.mark.parametrize(
    ("op", "lie"),
    [
        ("load", ENDS[0]),
        ("construct", {"state": []}),
        ("construct", {"state": "all of it"}),
        ("timed", {"us": 0}),
        ("timed", {"us": 1e11}),
        ("timed", ENDS[1]),
    ],
    ids=str,
)
@pytest.mark.quiet
def test_a_best_so_far_that_lies_is_left_out_and_ends_no_rival(bench, op, lie):
    tried: list[Once] = []

    def ask() -> Outcome:
        tried.append(Once("incumbent", op, lie, 0))
        return bench.judge(tried[-1], rival=True)

    outcome = arrives(believed(ask))
    assert tried[-1].told and outcome.verdict is Verdict.PASS and outcome.versus_incumbent is None, outcome
    noted = "incumbent" in outcome.environment or "time.no_incumbent" in {one.code for one in outcome.findings}
    assert noted, outcome
