"""Baselines other than eager: when each applies, what its child makes of the model, what its outputs may be off by."""

from __future__ import annotations

import math
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from judge.bench.deciding.alternatives import Alternatives
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.foreign.switches import neutral, numerics_now, numerics_of
from judge.bench.judging.precision import Allowed
from judge.bench.subjects.baseline_models import NotFitting, as_baseline
from judge.bench.timing.measured import Measurement, Runner
from judge.values import ALTERNATIVES, BASELINES, JudgeError, Policy, Precision

CONV = {"operators": {"convolution", "relu"}, "fp32": {"convolution", "relu"}}
PRODUCT = {"operators": {"mm"}, "fp32": {"mm"}}
HALVES = {"operators": {"convolution"}, "fp32": set()}
ATTENTION = {"operators": {"bmm", "_softmax"}, "fp32": {"bmm", "_softmax"}}


@pytest.mark.parametrize(
    ("facts", "precision", "wanted"),
    [
        (CONV, "strict", {"shipped", "benchmark", "channels_last", "compile", "autotune"}),
        (CONV, "shipped", {"strict", "benchmark", "channels_last", "compile", "autotune"}),
        (CONV, "tf32", {"strict", "benchmark", "channels_last", "compile", "autotune"}),
        (CONV, "half", {"strict", "benchmark", "channels_last", "autocast", "compile", "autotune"}),
        (PRODUCT, "strict", {"compile", "autotune"}),
        (PRODUCT, "tf32", {"shipped", "strict", "compile", "autotune"}),
        (HALVES, "strict", {"benchmark", "channels_last", "compile", "autotune"}),
        (HALVES, "half", {"benchmark", "channels_last", "compile", "autotune"}),
        (ATTENTION, "shipped", {"sdpa", "compile", "autotune"}),
    ],
)
def test_a_baseline_is_timed_where_it_is_another_one_than_eager(facts, precision, wanted):
    found = {one.name for one in ALTERNATIVES if not one.why_not(precision=Precision(precision), on_gpu=True, **facts)}
    assert found == wanted


def test_what_only_a_gpu_has_is_left_out_elsewhere():
    here = {one.name for one in ALTERNATIVES if not one.why_not(precision=Precision.HALF, on_gpu=False, **CONV)}
    assert here == {"channels_last", "compile", "autotune"}


class Convolves(torch.nn.Module):
    def __init__(self, dims: int) -> None:
        super().__init__()
        self.conv = (torch.nn.Conv2d if dims == 2 else torch.nn.Conv3d)(4, 8, 3)

    def forward(self, x):
        return self.conv(x).relu()


@pytest.mark.parametrize(("dims", "layout"), [(2, torch.channels_last), (3, torch.channels_last_3d)])
@torch.no_grad()
def test_channels_last_lays_weights_out_anew_and_changes_no_output(dims, layout):
    model, x = Convolves(dims), torch.randn(2, 4, *[9] * dims)
    right = model(x)
    other = as_baseline(BASELINES["channels_last"], model, "cpu")
    assert other.conv.weight.is_contiguous(memory_format=layout) and not other.conv.weight.is_contiguous()
    torch.testing.assert_close(other(x), right)
    with pytest.raises(NotFitting, match="no weight of four or five dimensions"):
        as_baseline(BASELINES["channels_last"], torch.nn.Linear(3, 3), "cpu")


class Attends(torch.nn.Module):
    def __init__(self, step, drop: float = 0.0) -> None:
        super().__init__()
        self.step, self.drop = step, torch.nn.Dropout(drop)

    def forward(self, q, k, v, m):
        scores = self.step(q @ k.transpose(-2, -1), m)
        return self.drop(torch.softmax(scores, dim=-1)) @ v


def future(m):
    return torch.ones_like(m, dtype=torch.bool).triu(1)


SDPA = BASELINES["sdpa"]
SHAPE = (2, 3, 8, 8)


@pytest.mark.parametrize("shape", [SHAPE, (3, 8, 8)])
@pytest.mark.parametrize(
    "step",
    [
        lambda s, m: s,
        lambda s, m: s / math.sqrt(s.size(-1)),
        lambda s, m: s * 0.3 + m,
        lambda s, m: (s * 0.3).masked_fill(future(m), -math.inf),
    ],
    ids=["plain", "scaled", "biased", "causal"],
)
@torch.no_grad()
def test_attention_written_out_becomes_torchs_own(step, shape):
    model, given = Attends(step), (*(torch.randn(shape) for _ in range(3)), torch.randn(8, 8))
    other = as_baseline(SDPA, model, "cpu")
    torch.testing.assert_close(other(*given), model(*given))
    assert "scaled_dot_product_attention" in other.exported.code and "softmax" not in other.exported.code


@pytest.mark.parametrize(
    "model",
    [
        Attends(lambda s, m: (s + m) * 2),
        Attends(lambda s, m: s.relu()),
        Attends(lambda s, m: s, drop=0.5),
        Attends(lambda s, m: s.masked_fill(future(m), -1.0)),
        torch.nn.Softmax(-1),
    ],
    ids=["mask scaled", "another function", "dropout", "no mask", "no product"],
)
@torch.no_grad()
def test_what_is_no_attention_is_left_alone(model):
    given = (
        (torch.randn(SHAPE),) if isinstance(model, torch.nn.Softmax) else (*torch.randn(3, *SHAPE), torch.ones(8, 8))
    )
    with pytest.raises(NotFitting, match="no softmax"):
        as_baseline(SDPA, model, "cpu")(*given)


@torch.no_grad()
def test_autocast_computes_in_16_bits_and_answers_in_32():
    model, x = torch.nn.Linear(64, 64), torch.randn(8, 64)
    out = as_baseline(BASELINES["autocast"], model, "cpu")(x)
    assert out.dtype is torch.float32 and torch.equal(out, out.bfloat16().float()) and not torch.equal(out, model(x))


@pytest.mark.parametrize("precision", Precision)
def test_the_switches_of_each_numerics_are_set_and_read_back(precision):
    policy = Policy(precision=precision)
    neutral(policy, benchmark=True)
    assert numerics_now() == numerics_of(policy) and torch.backends.cudnn.benchmark
    products, convolutions = precision in ("tf32", "half"), precision != "strict"
    assert torch.backends.cuda.matmul.allow_tf32 is products and torch.backends.cudnn.allow_tf32 is convolutions
    assert torch.get_float32_matmul_precision() == ("high" if products else "highest")
    neutral(Policy())
    assert not torch.backends.cudnn.benchmark and set(numerics_now().values()) == {False, "ieee", "highest"}


def test_a_switch_that_does_not_stand_as_set_is_a_fault_of_the_judge(monkeypatch):
    monkeypatch.setattr("judge.bench.foreign.switches.numerics_now", dict)
    with pytest.raises(JudgeError, match="although"):
        neutral(Policy())


# -- timing one --


class Subjects:
    def __init__(self, fault: Exception | None = None) -> None:
        self.contacts, self.fault, self.released = {}, fault, []

    def more(self, wanted):
        assert wanted == {"compile": "compile"}
        if self.fault is not None:
            raise self.fault
        self.contacts["compile"] = SimpleNamespace(deadline=None)
        return self.contacts

    def release(self, name):
        self.released.append(name)


@pytest.mark.parametrize(
    ("failed", "fault", "note"),
    [
        ("", None, "measured"),
        ("left out: no", None, "left out: no"),
        ("", JudgeError("its process ended"), "left out: its process ended"),
    ],
)
def test_each_has_a_stage_and_a_limit_of_its_own_and_its_child_is_let_go(failed, fault, note):
    paused, records, said = [], [], []

    @contextmanager
    def pause():
        paused.append("in")
        yield
        paused.append("out")

    def alternative(timed, baseline, limits):
        assert (timed, baseline.name, limits, paused) == ("timed", "compile", ["allowed"], ["in"])
        assert 179 < subjects.contacts["compile"].deadline.stage() <= 180
        assert log.own is subjects.contacts["compile"].deadline, "waits for the GPU do not count"
        return failed

    subjects = Subjects(fault)
    log = SimpleNamespace(doing=said.append, record=lambda *row: records.append(row))
    own = Alternatives(SimpleNamespace(alternative=alternative), subjects, SimpleNamespace(paused=pause), log)
    first = SimpleNamespace(expected=SimpleNamespace(random=frozenset(), allowed=["allowed"]))
    assert own.time(BASELINES["compile"], "timed", "reference", first) == note
    assert said == ["torch_compile"] and paused == ["in", "out"]
    assert subjects.released == ([] if fault else ["compile"]) and log.own is None
    [(name, state, wall_ms, detail)] = records
    assert (name, state, detail) == (
        said[0],
        "ok" if note == "measured" else "warned",
        "" if note == "measured" else note,
    )
    assert 0 <= wall_ms < 5e3


def test_a_baseline_whose_outputs_are_off_is_wrong_and_no_other_is_looked_at():
    own = Measurement.__new__(Measurement)
    own.limits = [Allowed(1e-9, 1e-9)]
    own.reference = SimpleNamespace(gradients=SimpleNamespace(title=lambda number: f"output {number}"))
    right = torch.randn(64)
    side = Runner(SimpleNamespace(name="compile", take=lambda outs: [right * 1.01]), None, blame=False)
    side.limits = [Allowed(0.1, 0.1)]
    own.check_values(side, [], [right])
    side.limits = [Allowed(1e-4, 1e-4)]
    with pytest.raises(SubjectFailed) as caught:
        own.check_values(side, [], [right])
    assert "output 0 is off by more than its numerics allow" in caught.value.message
