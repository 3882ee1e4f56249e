"""One answer against what was expected, at both sides of every limit: structure, floats, aliases, values."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from judge.bench.exchange.claims import Forwarded
from judge.bench.exchange.nested import TensorMeta
from judge.bench.exchange.poison import poison
from judge.bench.exchange.rows import Owned
from judge.bench.judging.comparison import alike, check_aliases, check_structure, compared, fault_of, where
from judge.bench.judging.completion import Ended
from judge.bench.judging.diagnosis import _apart, check_steady
from judge.bench.judging.expected import Target, holds, same_bits
from judge.bench.judging.parameters import HOOK, SEEDED, bind
from judge.bench.judging.precision import Allowed, Errors, joined, reach
from judge.values import Verdict
from tests.judge.replies import forwarded

ONE = {"t": 0}
META = TensorMeta.of(torch.zeros(2, 3))


def expecting(
    template: object = ONE, exact: object = None, slack: float = 0.0, metas: tuple[TensorMeta, ...] = (META,)
) -> SimpleNamespace:
    return SimpleNamespace(
        template=template,
        exact_template=template if exact is None else exact,
        scalar_slack=slack,
        metas=list(metas),
        title="output {}".format,
    )


def replied(template: object = ONE, metas: tuple[TensorMeta, ...] = (META,), **more: object) -> Forwarded:
    return forwarded(template=template, metas=[meta.to_json() for meta in metas], **more)


def ending(reply: Forwarded, expected: SimpleNamespace) -> tuple[Verdict, str, str, str]:
    with pytest.raises(Ended) as caught:
        check_structure(reply, expected, "smoke")
    ended = caught.value
    return ended.verdict, ended.stage, ended.reason, ended.message


def test_a_right_structure_says_nothing():
    check_structure(replied(), expecting(), "smoke")
    strided = TensorMeta("float32", (2, 3), (1, 2))
    check_structure(replied(metas=(strided,)), expecting(), "smoke")


@pytest.mark.parametrize(
    ("reply", "verdict", "reason", "words"),
    [
        (forwarded(structure="the output is a str"), Verdict.WRONG_STRUCTURE, "structure.type", "the output is a str"),
        (replied({"list": [ONE]}), Verdict.WRONG_STRUCTURE, "structure.nesting",
         "nested as [tensor], the reference as tensor"),
        (replied(metas=(TensorMeta.of(torch.zeros(3, 2)),)), Verdict.WRONG_STRUCTURE, "structure.shape",
         "output 0 has shape [3, 2], the reference's has [2, 3]"),
        (replied(metas=(TensorMeta.of(torch.zeros(2, 3).half()),)), Verdict.WRONG_STRUCTURE, "structure.dtype",
         "output 0 has dtype float16, the reference's has float32"),
        (replied(stored=False), Verdict.DISHONEST, "tamper.channel", "described but not handed over"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_structure(reply, verdict, reason, words):
    told = ending(reply, expecting())
    assert told[:3] == (verdict, "smoke", reason) and told[3].endswith(words)


@pytest.mark.parametrize(
    ("got", "wanted", "same"),
    [
        ({"v": 3}, {"v": 3}, True),
        ({"v": 3}, {"v": 4}, False),
        ({"v": 3.0}, {"v": 3}, True),
        ({"v": True}, {"v": 1.0}, True),
        ({"v": "a"}, {"f": "a"}, False),
        ({"v": 1, "t": 0}, {"v": 1}, False),
        (3, {"v": 3}, False),
        ({"list": [ONE]}, {"tuple": [ONE]}, False),
        ({"list": [ONE, {"v": 1}]}, {"list": [ONE]}, False),
        ({"list": 3}, {"list": [ONE]}, False),
        ({"dict": [["a", ONE]]}, {"dict": [["b", ONE]]}, False),
        ({"dict": [["a", {"v": 2}]]}, {"dict": [["a", {"v": 1}]]}, False),
        ({"dict": [["a", {"list": [ONE, {"v": 1}]}]]}, {"dict": [["a", {"list": [ONE, {"v": 1}]}]]}, True),
    ],
)
def test_templates_are_alike_or_not(got, wanted, same):
    assert alike(got, wanted, wanted, 0.0) is same


@pytest.mark.parametrize(
    ("got", "slack", "same"),
    [
        (1.0, 0.0, True),
        (1.5, 0.0, True),
        (1.501, 0.0, False),
        (0.5, 0.0, True),
        (0.499, 0.0, False),
        (1.501, 0.6, True),
    ],
)
def test_a_float_may_be_off_by_eight_times_the_references_own_error(got, slack, same):
    """The reference gives 1.0625 where fp64 gives 1."""
    assert alike({"v": got}, {"v": 1.0625}, {"v": 1.0}, slack) is same


@pytest.mark.parametrize(("got", "same"), [(2.25, True), (2.26, False), (1.75, True), (1.74, False), (2, False)])
def test_a_float_may_be_off_by_the_slack(got, same):
    for nest in (lambda one: one, lambda one: {"list": [one]}, lambda one: {"dict": [["k", {"tuple": [one]}]]}):
        assert alike(nest({"v": got}), nest({"v": 2.0}), nest({"v": 2.0}), 0.125) is (same or got == 2)
    assert not alike({"v": "x"}, {"v": 2.0}, {"v": 2.0}, 9.0) and not alike({"v": 3}, {"v": 2}, {"v": 2}, 9.0)
    assert alike({"v": 2.25}, {"v": 2.0}, {"other": 1}, 0.125), (
        "where the exact one is nested otherwise, its own counts"
    )
    assert alike({"list": [{"v": 2.25}]}, {"list": [{"v": 2.0}]}, {"list": []}, 0.125)


ALIASED = SimpleNamespace(aliases=[[0, 1]], shared=frozenset({(0, 2)}), title="output {}".format)


def test_an_output_in_an_inputs_memory_must_be_the_references_too():
    check_aliases(forwarded(alias=[[0, 1]]), ALIASED)
    check_aliases(forwarded(), ALIASED)
    check_aliases(forwarded(alias=[[0, 2]]), ALIASED)  # a gradient in its cotangent's
    with pytest.raises(Ended, match=r"state\.alias") as caught:
        check_aliases(
            forwarded(alias=[[0, 1], [1, 2]]),
            ALIASED,
        )
    assert caught.value.message.startswith("output 1 lies in the memory of input 2")
    assert (caught.value.verdict, caught.value.stage) == (Verdict.STATE_VIOLATION, "correctness")


RIGHT = torch.tensor([1.0, 2.0, 3.0, 4.0])


def target(
    same: torch.Tensor = RIGHT, rms: float = 0.01, largest: float = 0.02, exact: torch.Tensor | None = None
) -> Target:
    oracle = same.double() if same.is_floating_point() else same
    return Target(same, oracle, Allowed(rms, largest), Errors(0.0, 0.0), None, exact)


def test_a_value_is_right_up_to_the_allowed_error():
    spread = float(RIGHT.std(correction=0))
    off = torch.tensor([0.0, 0.0, 0.0, spread])
    assert compared(target(), RIGHT) == (None, 0.0)
    fault, error = compared(target(), RIGHT + 0.019 * off)
    assert fault is None and error == pytest.approx(0.0095, rel=1e-3)
    fault, _ = compared(target(), RIGHT + 0.0201 * off)
    assert fault is not None and (fault.reason, fault.verdict) == ("value.mismatch", Verdict.WRONG)
    assert fault.found is not None and fault.found.largest == pytest.approx(0.0201, rel=1e-2)
    assert "worst at [3]: got 4.02247, oracle 4" in fault.text and "(allowed 0.01)" in fault.text
    assert fault_of(target(), RIGHT + 0.0201 * off) == fault and fault_of(target(), RIGHT) is None


def test_what_nobody_wrote_or_what_is_not_finite_is_said_so():
    partial = RIGHT.clone()
    poison(partial[1:3])
    fault = fault_of(target(), partial)
    assert fault is not None and fault.reason == "value.partial" and fault.text == "2 of 4 elements were never written"
    fault = fault_of(target(), torch.tensor([1.0, float("inf"), 3.0, float("nan")]))
    assert fault is not None and (fault.reason, fault.verdict) == ("value.nonfinite", Verdict.NOT_FINITE)
    assert fault.text == "2 of 4 elements are NaN or infinite where the oracle is not"
    infinite = target(torch.tensor([1.0, float("inf"), 3.0]))
    assert fault_of(infinite, torch.tensor([1.0, float("inf"), 3.0])) is None
    fault = fault_of(infinite, torch.tensor([1.0, 5.0, 3.0]))
    assert fault is not None and fault.reason == "value.mismatch"
    complex_one = target(torch.complex(RIGHT, RIGHT))
    fault = fault_of(
        Target(complex_one.same, complex_one.same.to(torch.complex128), Allowed(0.01, 0.02), Errors(0, 0), None),
        torch.complex(RIGHT, RIGHT * float("nan")),
    )
    assert fault is not None and fault.text.startswith("4 of 8 elements")


def test_an_integer_is_right_as_either_precision_gives_it():
    one = target(torch.tensor([1, 2, 3]), exact=torch.tensor([1, 2, 4]))
    assert fault_of(one, torch.tensor([1, 2, 3])) is None is fault_of(one, torch.tensor([1, 2, 4]))
    fault = fault_of(one, torch.tensor([1, 5, 4]))
    assert fault is not None and fault.text == "1 of 3 int64 elements differ; worst at [1]: got 5, oracle 2"
    assert holds(one, torch.tensor([1, 2, 4])) and not holds(one, torch.tensor([1, 2, 5]))
    assert not holds(one, torch.tensor([1, 2, 3], dtype=torch.int32))
    assert compared(one, torch.tensor([1, 2, 3]))[1] == 0.0


def test_the_worst_element_is_one_that_can_be_looked_up():
    value, exact = torch.tensor([[1.0, 2.0], [3.0, 9.0]]), torch.tensor([[1.5, 2.0], [3.0, 4.0]])
    assert where(value, exact) == "worst at [1, 1]: got 9, oracle 4"
    assert where(torch.tensor(2.0), torch.tensor(3.0)) == "worst at []: got 2, oracle 3"
    assert where(torch.tensor([1.0, float("nan")]), torch.tensor([9.0, 2.0])) == "worst at [1]: got nan, oracle 2"


def steady(one: torch.Tensor, other: torch.Tensor, expected: Target) -> str:
    question = SimpleNamespace(family="given", expected=SimpleNamespace(title="output {}".format))
    try:
        check_steady(question, 1, expected, one, other)
    except Ended as ended:
        assert (ended.verdict, ended.stage, ended.reason) == (Verdict.UNSTABLE, "correctness", "run.unstable")
        assert ended.message.startswith("output 1, inputs 'given': two calls on equal inputs")
        return ended.message.partition("(")[2].partition(")")[0]
    return ""


def test_two_answers_to_equal_content_may_differ_by_twice_the_allowed_error():
    off = torch.tensor([0.0, 0.0, 0.0, float(RIGHT.std(correction=0))])
    assert steady(RIGHT, RIGHT, target()) == ""
    assert steady(RIGHT, RIGHT + 0.0399 * off, target()) == ""
    assert steady(RIGHT, RIGHT + 0.041 * off, target()) == "2.05 times the allowed error apart"
    assert steady(RIGHT, RIGHT + 1e-6 * off, target(rms=0.0, largest=0.0)) == "inf times the allowed error apart"
    assert steady(RIGHT, torch.tensor([1.0, 2.0, 3.0, float("inf")]), target()) == "not finite in the same places"
    both = torch.tensor([1.0, 2.0, 3.0, float("inf")])
    assert steady(both, torch.tensor([1.0, 2.0, 3.0, float("-inf")]), target(both)) == ""
    assert _apart(target(), RIGHT, RIGHT) == 0.0
    numbers = target(torch.tensor([1, 2, 3]))
    assert steady(torch.tensor([1, 2, 3]), torch.tensor([1, 5, 6]), numbers) == "2 of 3 elements differ"


def test_equal_content_has_equal_bits_and_a_nan_equals_itself():
    nan = float("nan")
    assert same_bits(torch.tensor([1.0, nan]), torch.tensor([1.0, nan]))
    assert not same_bits(torch.tensor([1.0, nan]), torch.tensor([nan, 1.0]))
    assert not same_bits(torch.tensor([nan]), torch.tensor([[nan]])) and not same_bits(
        torch.tensor([1]), torch.tensor([2])
    )
    assert same_bits(torch.tensor([complex(1, nan)]), torch.tensor([complex(1, nan)]))


def test_limits_grow_only_by_what_is_finite():
    limit = Allowed(1.0, 4.0)
    assert limit.widened(Errors(2.0, 3.0), 1.5) == Allowed(3.0, 4.5) and limit.widened(
        Errors(0.1, 5.0), 1.0
    ) == Allowed(1.0, 5.0)
    assert limit.widened(Errors(float("inf"), 1.0), 2.0) is limit
    assert limit.holds(Errors(1.0, 4.0)) and not limit.holds(Errors(1.01, 4.0)) and not limit.holds(Errors(1.0, 4.01))
    assert not Allowed(float("inf"), float("inf")).holds(Errors(float("nan"), 0.0))
    assert joined(Errors(1.0, 2.0), Errors(3.0, 1.0)) == Errors(3.0, 2.0)
    assert joined(Errors(1.0, 2.0), None) == Errors(1.0, 2.0) == joined(Errors(1.0, 2.0), Errors(float("nan"), 9.0))
    assert reach(torch.tensor([0.0, 0.0, 0.0, 4.0])) == pytest.approx(4.0 / 3**0.5)
    assert reach(torch.zeros(3)) == 0.0


# -- parameters --


def rows(**shapes: tuple[int, ...]) -> list[Owned]:
    """Parameters of a candidate; a name that begins with `b_` is a buffer's."""
    return [Owned(name, "buffer" if name.startswith("b_") else "parameter", shape) for name, shape in shapes.items()]


STATE = {"w": torch.zeros(3, 2), "v": torch.zeros(4), "b_mean": torch.zeros(5)}
OURS = ["w", "v"]


def test_equal_names_bind_with_the_buffers_that_fit():
    found = bind(rows(v=(4,), w=(3, 2), b_mean=(5,), b_own=(1,)), False, STATE, OURS)
    assert found.pairs == (("v", "v"), ("w", "w"), ("b_mean", "b_mean")) and not (found.hook or found.by_position)
    assert [name for name, _ in found.of(STATE)] == ["v", "w", "b_mean"] and found.theirs("v") == "v"


def test_a_hook_comes_before_positions_and_takes_all():
    found = bind(rows(a=(3, 2), b=(4,)), True, STATE, OURS)
    assert found.hook and found.pairs == () and found.of(STATE) == list(STATE.items())
    assert not bind(rows(w=(3, 2), v=(4,)), True, STATE, OURS).hook, "names that fit need no hook"


def test_positions_bind_where_shapes_agree_in_order():
    found = bind(rows(a=(3, 2), b=(4,), b_mean=(5,)), False, STATE, OURS)
    assert found.by_position and found.pairs == (("a", "w"), ("b", "v"), ("b_mean", "b_mean"))
    assert found.theirs("w") == "a" and found.theirs("other") == "other"
    assert [name for name, _ in found.of(STATE)] == ["a", "b", "b_mean"]
    swapped = bind(rows(v=(3, 2), b=(4,)), False, STATE, OURS)
    assert swapped.pairs == (("v", "w"), ("b", "v")), "a name of the reference at another place is a position"


def test_a_parameter_may_be_left_out_but_none_may_be_unknown():
    assert bind(rows(w=(3, 2)), False, STATE, OURS).pairs == (("w", "w"),)
    for own in (rows(a=(4,), b=(3, 2)), rows(w=(3, 2), x=(9,)), rows(w=(2, 3)), rows()):
        with pytest.raises(Ended) as caught:
            bind(own, False, STATE, OURS)
        assert (caught.value.verdict, caught.value.stage) == (Verdict.LOAD_FAILED, "load")
        assert caught.value.reason == "load.params" and "reference: w [3, 2], v [4]" in caught.value.message
        assert ("ModelNew: none" in caught.value.message) is (not own) and HOOK in caught.value.message
        assert bind(own, False, STATE, OURS, equal_seeding=True) is SEEDED
