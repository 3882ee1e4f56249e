"""Whatever a process sends: the door gives a typed value whose invariants hold, or BadClaim, and nothing else."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judge.bench.compiling.report import CompileReport
from judge.bench.exchange import claims, fields, rows
from judge.bench.exchange.claims import Beside, Claim, Constructed, Forwarded
from judge.bench.exchange.fields import BadClaim, Fields
from judge.bench.exchange.nested import decode, shape_of
from judge.bench.exchange.reports import heard
from judge.bench.exchange.wire import MAX_MESSAGE
from judge.bench.interpreting.targets import KINDS as PEAKS
from judge.values import AdmissionReport, Finding, Outcome, StageRecord, Verdict
from tests.judge.mutations import JSON, changed, mutated
from tests.judge.replies import COUNTED, FAULTY, HONEST, KERNEL, KINDS, TUNED

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
REPORT = {
    "verdict": "compiled_only", "stage": "compile", "reason": "", "message": "", "final": False, "loads": True,
    "kernels": [KERNEL], "tuned": [TUNED], "launchers": HONEST["forward"]["launchers"], "notes": ["a"],
}  # fmt: skip
SAID: list[dict[str, Any]] = [
    {"doing": "load"}, {"inside": "Model.forward"}, {"gave_up": "no memory"}, {"need": {"eager#2": "eager"}},
    {"stage": {"name": "load", "state": "ok", "wall_ms": 1.5, "detail": "a", "fix": ""}}, {"look": "audit"},
    {"verdict": {"a": 1}, "mac": "00ff", "stays": ["referee"], "scarce": False}, {"sandbox": {"seccomp": "active"}},
]  # fmt: skip
OUTCOME = Outcome(
    Verdict.WRONG, "smoke", "value.mismatch", stages=(StageRecord("load", "ok", 1.0),), findings=(Finding("a.b", "c"),)
).to_json()
ADMISSION = AdmissionReport("admitted", cases=("a",), parameters=3, flops=1.0, inputs=({"shape": [1]},)).to_json()


def holds(value: Any, hint: Any) -> None:
    """`value` is of the type that its class says, and such that anything may be done with it."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        holds(value, type(None) if value is None else inner[0])
    elif origin in (tuple, frozenset):
        assert type(value) is origin
        if inner[-1] is not Ellipsis and origin is tuple:
            assert len(value) == len(inner)
        for item in value:
            holds(item, inner[0])
    elif origin is dict:
        assert type(value) is dict
        for key, item in value.items():
            holds(key, inner[0])
            holds(item, inner[1])
    elif dataclasses.is_dataclass(hint):
        assert type(value) is hint
        for name, kind in typing.get_type_hints(hint).items():
            if typing.get_origin(kind) is not typing.ClassVar:
                holds(getattr(value, name), kind)
    elif hint is not Any:
        assert type(value) is hint, (value, hint)
        if hint is str:
            value.encode()
            assert "\x00" not in value and len(value) <= 5000
        elif hint is float:
            assert math.isfinite(value) and 0 <= value <= 1e12
        elif hint is int:
            assert 0 <= value < 1 << 63


def sound(claim: Claim) -> None:
    holds(claim, type(claim))
    if isinstance(claim, claims.Output) and not claim.refused:
        shape_of(claim.template)
        decode(claim.template, lambda number: claim.metas[number].shape, "cpu")
    if isinstance(claim, Forwarded):
        kept = [[dataclasses.asdict(row) for row in rows] for rows in (claim.kernels, claim.tuned, claim.launchers)]
        assert len(json.dumps(kept)) < MAX_MESSAGE * 0.75, "they travel on, together"
        {row.name for row in (*claim.kernels, *(claim.traffic or ()), *claim.launches, *claim.traced)}
    if isinstance(claim, Constructed):
        assert len({row.name for row in claim.state}) == len(claim.state)


def door(kind: type[Claim], value: Any) -> Claim | None:
    try:
        reply = Fields(value, "a reply")
        holds(Beside.read(reply), Beside)
        claim = kind.read(reply)
    except BadClaim as error:
        assert len(str(error)) < 200
        return None
    sound(claim)
    return claim


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.op)
def test_an_honest_reply_is_understood(kind):
    claim = door(kind, HONEST[kind.op] | FAULTY)
    assert claim is not None and type(claim) is kind


KEYS = st.sampled_from(sorted({*HONEST["forward"], *FAULTY, "state", "us"}))


@QUICK
@given(st.sampled_from(KINDS), st.dictionaries(KEYS, JSON) | JSON)
def test_any_json_is_a_claim_or_none(kind, value):
    door(kind, value)


@pytest.mark.parametrize("op", ["construct", "parameters", "timed", "forward"])
def test_one_changed_field_makes_it_another_claim_or_none(op):
    kind = next(kind for kind in KINDS if kind.op == op)

    @QUICK
    @given(mutated(HONEST[op] | FAULTY))
    def check(value):
        door(kind, value)

    check()


@QUICK
@given(st.one_of(*(mutated({**message, "nonce": "n"}) for message in SAID)) | JSON)
def test_what_a_deciding_child_says_is_a_report_or_none(message):
    try:
        report = heard(message, "n")
    except BadClaim:
        return
    for field in dataclasses.fields(report):
        value = getattr(report, field.name)
        if isinstance(value, StageRecord):
            value = value.name + value.detail + value.fix
        if isinstance(value, str):
            value.encode()
            assert "\x00" not in value


@QUICK
@given(mutated(REPORT) | JSON)
def test_a_report_of_the_compile_stage_is_one_or_none(value):
    try:
        report = CompileReport.read(value)
    except BadClaim:
        return
    assert report.verdict not in (Verdict.PASS, Verdict.LOST)
    holds(report.kernels, tuple[rows.KernelRow, ...])
    report.findings()
    assert CompileReport.read(json.loads(json.dumps(report.to_json()))) == report


MALFORMED = (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError)


@QUICK
@given(st.tuples(st.just(Outcome), mutated(OUTCOME)) | st.tuples(st.just(AdmissionReport), mutated(ADMISSION)))
def test_a_signed_verdict_is_of_the_types_that_its_class_says(pair):
    kind, body = pair
    try:
        found = kind.from_json(body)
    except MALFORMED:
        return
    for field in dataclasses.fields(found):
        value, hint = getattr(found, field.name), typing.get_type_hints(kind)[field.name]
        if hint in (str, bool):
            assert type(value) is hint
        elif hint in (int, float):
            assert type(value) in (int, float) and type(float(value)) is float
        elif typing.get_origin(hint) is tuple:
            assert type(value) is tuple


ODD_TIMES = [float("nan"), float("inf"), -1.0, -1e-9, 1e13, 10**400, True, "1", None, [1.0], {}]


@pytest.mark.parametrize("us", ODD_TIMES, ids=str)
def test_a_time_is_a_finite_number_of_microseconds(us):
    assert door(claims.Timed, HONEST["timed"] | {"us": us}) is None
    assert door(claims.Timed, HONEST["timed"] | {"host_us": us}) is None or us is None
    assert door(claims.StateTaken, HONEST["parameters"] | {"prepare_us": us}) is None or us is None
    assert door(claims.Timed, HONEST["timed"] | {"us": 3}).us == 3.0


@pytest.mark.parametrize("count", [True, -1, 1.0, "1", 2**51, 10**400, None, [1]], ids=str)
def test_a_count_is_a_whole_number_that_sums_of_many_can_hold(count):
    for name in ("sector_bytes", "accesses", "elementwise_flops"):
        assert door(Forwarded, HONEST["forward"] | {"traffic": [COUNTED | {name: count}]}) is None
    assert door(Forwarded, HONEST["forward"] | {"traffic": [COUNTED | {"dot_flops": {"tf32": count}}]}) is None
    assert 5000 * fields.WHOLE < 1 << 63


@pytest.mark.parametrize(
    "field",
    [
        {"template": {"list": [{"t": 0}, {"t": 0}]}},
        {"template": {"t": 1}},
        {"template": {"v": None}},
        {"template": {"t": True}},
        {"metas": []},
        {"template": {"t": 0}, "metas": HONEST["forward"]["metas"] * 2},
        {"traffic": [COUNTED | {"dot_flops": {"fp4": 1}}]},
        {"traffic": [COUNTED] * (claims.MOST_ROWS + 1)},
        {"kernels": [KERNEL | {"name": ["k"]}]},
        {"kernels": [KERNEL | {"name": "k" * (fields.NAME + 1)}]},
        {"kernels": [KERNEL | {"config": "\U0001f600" * fields.TEXT}] * 900},
        {"kernels": [{key: value for key, value in KERNEL.items() if key != "grid"}]},
        {"launchers": [{"signature": ["*fp32; system()"]}]},
        {"error": {"kind": "too_large", "message": ""}},
        {"error": {"kind": "load", "reason": "load.died", "message": ""}},
        {"error": {"kind": "load", "reason": "problem.raises", "message": ""}},
        {"error": None},
        {"touched": "time.time"},
        {"switched": [["a"]]},
    ],
    ids=lambda field: str(field)[:60],
)
def test_what_would_mislead_later_code_is_no_claim(field):
    assert door(Forwarded, HONEST["forward"] | field) is None


def test_two_parameters_of_one_name_are_no_state():
    """They would be handed over twice, into memory that holds them once."""
    state = HONEST["construct"]["state"]
    assert door(Constructed, HONEST["construct"] | {"state": state * 2}) is None
    assert door(Constructed, changed(HONEST["construct"], ("state", 0, "name"), "replace", "\x00")) is None


@pytest.mark.parametrize("nest", [lambda inner: {"list": [inner]}, lambda inner: {"dict": [["a", inner]]}])
def test_values_are_nested_no_deeper_than_honest_ones(nest):
    value: dict[str, Any] = {"t": 0}
    for depth in range(claims.DEPTH_LIMIT + 10):
        assert (door(Forwarded, HONEST["forward"] | {"template": value}) is None) == (depth > claims.DEPTH_LIMIT + 1)
        value = nest(value)


def test_words_for_people_are_cut_and_cleaned_where_names_are_refused():
    fault = rows.Fault.read({"kind": "exception", "message": "\x00\ud800" + "x" * 9000})
    assert fault.message == "\ufffd\ufffd" + "x" * (rows.MESSAGE_CHARS - 2)


def test_rows_that_the_door_would_refuse_are_not_sent_by_the_honest_side():
    good, odd = {"name": "a", "us": 1.0}, {"name": "", "us": 1.0}
    assert rows.sendable([odd, good, odd, good, good], rows.TracedRow.read, 2) == [good, good]
    long = {"name": "é" * 200, "us": 1.0}
    sent = rows.sendable([long] * 5000, rows.TracedRow.read, 5000)
    assert 500 < len(sent) < 5000 and len(json.dumps(sent)) <= rows.MOST_BYTES


def test_every_kind_of_product_that_may_be_counted_has_a_peak():
    assert set(PEAKS) == rows.DOTS
