"""A policy rules the reference, the candidate and the baselines alike: precision, mode, dtype, inputs, seeding."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from judge.bench.foreign import random_state
from judge.bench.foreign.factories import made, under
from judge.bench.foreign.switches import Switchboard, neutral
from judge.bench.judging.completion import Ended
from judge.bench.judging.correctness import Rounds
from judge.bench.judging.parameters import Binding, State
from judge.values import DEFAULT_POLICY, Audit, Job, Mode, Policy, Precision, ProblemSpec, Verdict
from tests.judge.rounds_bench import LIMITS, answer, ask, codes, problem

MATMUL = problem("return x[0] @ x[1]", inputs="torch.randn(64, 256), torch.randn(256, 32)")
CUT = """
def cut(x):
    b = x.contiguous().view(torch.int32)
    return ((b + 0x0FFF + ((b >> 13) & 1)) & ~0x1FFF).view(torch.float32)
"""
TF32 = CUT + answer(MATMUL, "return cut(x[0]) @ cut(x[1])")
HALF = answer(MATMUL, "return (x[0].bfloat16() @ x[1].bfloat16()).float()")


@pytest.mark.bench
@pytest.mark.parametrize(
    ("precision", "candidate", "verdict"),
    [
        (Precision.STRICT, TF32, Verdict.LOWER_PRECISION),
        (Precision.TF32, TF32, Verdict.PASS),
        (Precision.TF32, HALF, Verdict.LOWER_PRECISION),
        (Precision.HALF, HALF, Verdict.PASS),
        (Precision.HALF, answer(MATMUL, "return x[0] @ x[1] * 1.05"), Verdict.WRONG),
        (Precision.TF32, answer(MATMUL, "return x[0] @ x[1] * 1.01"), Verdict.WRONG),
    ],
)
def test_a_candidate_may_be_as_coarse_as_the_policy_says(cpu_bench, precision, candidate, verdict):
    text = "import torch\n" + candidate
    assert ask(cpu_bench, MATMUL, text, policy=Policy(precision=precision)).verdict is verdict


TRAINED = problem("return F.dropout(x[0], 0.5, self.training)")
DROPS = answer(TRAINED, "return F.dropout(x[0], 0.5, True)")
KEEPS = answer(TRAINED, "return x[0].clone()")


@pytest.mark.bench
@pytest.mark.parametrize(
    ("mode", "right", "wrong"),
    [(Mode.TRAIN, DROPS, KEEPS), (Mode.EVAL, KEEPS, DROPS), (Mode.CONSTRUCTED, DROPS, KEEPS)],
)
def test_the_mode_of_the_policy_is_the_references_mode(cpu_bench, mode, right, wrong):
    policy = Policy(mode=mode)
    assert ask(cpu_bench, TRAINED, right, policy=policy).verdict is Verdict.PASS
    assert ask(cpu_bench, TRAINED, wrong, policy=policy).verdict is Verdict.WRONG


LINEAR = problem("return self.l(x[0])", init="self.l = torch.nn.Linear(64, 8)")


@pytest.mark.bench
def test_a_dtype_casts_inputs_and_parameters_of_both_sides(cpu_bench):
    policy = Policy(dtype="bfloat16")
    assert ask(cpu_bench, LINEAR, answer(LINEAR), policy=policy).verdict is Verdict.PASS
    wide = answer(LINEAR, "return F.linear(x[0].float(), self.l.weight.float(), self.l.bias.float())")
    assert ask(cpu_bench, LINEAR, wide, policy=policy).reason == "structure.dtype"
    assert ask(cpu_bench, LINEAR, wide).verdict is Verdict.PASS


OWN = answer(LINEAR, "return x[0] @ self.w.t() + self.b").replace(
    "self.l = torch.nn.Linear(64, 8)", "l = torch.nn.Linear(64, 8)\n        self.w, self.b = l.weight, l.bias * 1"
)
SEEDED = OWN.replace("self.w, self.b = l.weight, l.bias * 1", "self.w, self.b = l.weight.data, l.bias.data")


@pytest.mark.bench
def test_equal_seeding_lets_a_kernel_make_its_own_parameters(cpu_bench):
    assert ask(cpu_bench, LINEAR, SEEDED).reason == "load.params"
    allowed = ask(cpu_bench, LINEAR, SEEDED, policy=Policy(equal_seeding=True))
    assert allowed.verdict is Verdict.PASS, allowed
    assert "load.seeded" in {finding.code for finding in allowed.findings}
    ignores = SEEDED.replace(
        "self.w, self.b", "torch.manual_seed(3)\n        l = torch.nn.Linear(64, 8)\n        self.w, self.b"
    )
    assert ask(cpu_bench, LINEAR, ignores, policy=Policy(equal_seeding=True)).verdict is Verdict.WRONG


def test_a_factory_makes_its_tensors_where_the_policy_says():
    def get_inputs():
        assert torch.rand(2).device.type == where
        return [torch.randn(3), torch.zeros(2), torch.randint(5, (4,))]

    where = "meta"
    with pytest.raises(NotImplementedError):  # moved away from meta: it was made there
        made(get_inputs, DEFAULT_POLICY, "meta", 1)[0].to("cpu")
    where = "cpu"
    assert made(get_inputs, Policy(inputs="cpu"), "cpu", 1)[0].shape == (3,)


def test_a_device_or_a_seed_written_into_the_factory_is_passed_over():
    def get_inputs():
        torch.manual_seed(0)
        source = torch.Generator().manual_seed(0)
        return [torch.randn(8, device="cuda"), torch.rand(8, generator=source), torch.ones(8).cuda()]

    one, other, again = (made(get_inputs, DEFAULT_POLICY, "cpu", seed) for seed in (1, 2, 1))
    for number in (0, 1):
        assert not torch.equal(one[number], other[number]) and torch.equal(one[number], again[number])
    assert {tensor.device.type for tensor in one} == {"cpu"}


def test_floating_inputs_take_the_policys_dtype_and_integers_keep_theirs():
    values = made(lambda: [torch.randn(2), torch.arange(3), 2.5], Policy(dtype="float16"), "cpu", 1)
    assert [getattr(value, "dtype", value) for value in values] == [torch.float16, torch.int64, 2.5]
    model = under(Policy(dtype="float16", mode=Mode.EVAL), torch.nn.BatchNorm1d(3), "cpu")
    assert model.weight.dtype is torch.float16 and model.num_batches_tracked.dtype is torch.int64
    assert not model.training


def test_switches_that_were_turned_are_told_and_put_back():
    neutral(DEFAULT_POLICY)
    board = Switchboard("cpu")
    assert board.restore() == []
    torch.set_default_dtype(torch.float64)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.use_deterministic_algorithms(True)
    changed = board.restore()
    assert {"default_dtype", "torch.backends.cuda.matmul.allow_tf32", "deterministic_algorithms"} <= set(changed)
    assert torch.get_default_dtype() is torch.float32 and not torch.backends.cuda.matmul.allow_tf32
    assert board.restore() == []


def test_tf32_is_off_unless_the_policy_allows_it():
    for precision, on in ((Precision.TF32, True), (Precision.HALF, True), (Precision.STRICT, False)):
        neutral(Policy(precision=precision))
        assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (on, on)


def test_generators_start_equal_and_a_draw_is_noticed():
    random_state.reset(5)
    before = random_state.mark("cpu")
    assert not random_state.moved(before, "cpu")
    first = torch.rand(3)
    assert random_state.moved(before, "cpu")
    random_state.reset(5)
    assert torch.equal(torch.rand(3), first)


FOLDS = answer(LINEAR, "return F.linear(x[0], self.l.weight, self.l.bias) * 2").replace(
    "self.l = torch.nn.Linear(64, 8)",
    "self.l = torch.nn.Linear(64, 8)\n        self.l.weight.data.mul_(0.5)\n        self.l.bias.data.mul_(0.5)",
)
DERIVES = answer(LINEAR, "return F.linear(x[0], self.w, self.b)").replace(
    "self.l = torch.nn.Linear(64, 8)",
    "self.l = torch.nn.Linear(64, 8)\n        self.w, self.b = self.l.weight.data.clone(), self.l.bias.data.clone()",
)


@pytest.mark.bench
@pytest.mark.parametrize(
    ("candidate", "without"),
    [(FOLDS, "value.mismatch"), (DERIVES, "state.stale_params")],
    ids=["folded in place", "copied in the constructor"],
)
def test_equal_seeding_is_for_kernels_that_derive_from_parameters_in_their_constructor(cpu_bench, candidate, without):
    assert ask(cpu_bench, LINEAR, candidate).reason == without
    allowed = ask(cpu_bench, LINEAR, candidate, policy=Policy(equal_seeding=True), timing=True)
    assert allowed.verdict is Verdict.PASS, allowed
    assert without in codes(allowed)["load.derived"] and "load.seeded" in codes(allowed)
    assert allowed.speedup is not None  # timed with the parameters it made itself
    assert all(case.ok for case in allowed.cases)


@pytest.mark.bench
def test_an_audit_follows_the_seeds_of_a_kernel_that_makes_its_own_parameters(cpu_bench):
    spec = ProblemSpec(LINEAR, policy=Policy(equal_seeding=True))
    found = cpu_bench.evaluate(Job("audited", spec, FOLDS, limits=LIMITS, timing=False, beat=None))
    assert (found.verdict, found.audit) == (Verdict.PASS, Audit.PASSED), found


@pytest.mark.bench
def test_equal_seeding_excuses_nothing_but_where_the_parameters_come_from(cpu_bench):
    policy = Policy(equal_seeding=True)
    assert ask(cpu_bench, LINEAR, DERIVES.replace("self.b)", "self.b * 1.01)"), policy=policy).verdict is Verdict.WRONG


@pytest.mark.bench
@pytest.mark.parametrize(
    ("coarse", "reason"),
    [
        ("F.linear(x[0].half().float(), self.l.weight.half().float() * 2)", "precision.half"),
        ("F.linear(cut(x[0]), cut(self.l.weight) * 2)", "precision.tf32"),
        ("F.linear(off(x[0]), off(self.l.weight) * 2)", "precision.tf32"),
    ],
    ids=["half", "rounded to tf32", "cut to tf32"],
)
def test_a_format_shows_through_parameters_that_a_kernel_made_itself(cpu_bench, coarse, reason):
    off = "def off(x):\n    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)\n"
    plain = problem("return self.l(x[0])", init="self.l = torch.nn.Linear(64, 8, bias=False)")
    folded = answer(plain, f"return {coarse}").replace(
        "bias=False)", "bias=False)\n        self.l.weight.data.mul_(0.5)"
    )
    text = f"import torch\n{CUT}\n{off}\n{folded}"
    found = ask(cpu_bench, plain, text, policy=Policy(equal_seeding=True))
    assert (found.verdict, found.reason) == (Verdict.LOWER_PRECISION, reason), found


def test_asked_again_under_equal_seeding_random_outputs_are_compared_in_full_again():
    """Only the first of them meets many draws; what a candidate was in its first life does not count."""
    rounds = Rounds(SimpleNamespace(first=State({})), None, Binding((), hook=False), None)
    rounds.by_chance = True
    rounds._start_seeded(Ended(Verdict.WRONG, "correctness", "value.mismatch", "wrong"))
    assert rounds.fit.seeded and not rounds.by_chance
