"""Problems that ask for gradients: judged as forward, then backward with cotangents that nobody knows ahead."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from judge.bench.foreign.gradients import Calls, asked_for, forward_alone
from judge.selftest.entries import chosen, entries
from judge.values import Gradients, Job, Policy, ProblemSpec, Subject, Verdict
from tests.judge.rounds_bench import LIMITS, answer, ask, problem

ALL = Policy(gradients=Gradients.ALL)
INPUTS = Policy(gradients=Gradients.INPUTS)
SCALE = problem("return torch.tanh(x[0]) * self.w", init="self.w = torch.nn.Parameter(torch.randn(64))")
OWN = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        t = torch.tanh(x)
        ctx.save_for_backward(t, w)
        return t * w
    @staticmethod
    def backward(ctx, g):
        t, w = ctx.saved_tensors
        return g * w * (1 - t * t), (g * t).sum(0)
"""
RIGHT = answer(SCALE, "return Scale.apply(x[0], self.w)").replace("class ModelNew", f"{OWN}\nclass ModelNew")


@pytest.mark.bench
@pytest.mark.parametrize("rows", [16, 1600])  # the larger one needs all the room that a round is given
def test_a_function_with_its_own_backward_passes(cpu_bench, rows):
    source = SCALE.replace("torch.randn(16, 64)", f"torch.randn({rows}, 64)")
    found = ask(cpu_bench, source, RIGHT, policy=ALL, timing=True)
    assert found.verdict is Verdict.PASS, found.message
    assert found.speedup is not None


@pytest.mark.bench
@pytest.mark.parametrize(
    ("right", "wrong", "title"),
    [
        ("g * w * (1 - t * t)", "g * w * (1 - t)", "the gradient of input 0"),
        ("(g * t).sum(0)", "(g * t).sum(0) * 2", "the gradient of w"),
        ("g * w * (1 - t * t), (g * t).sum(0)", "torch.zeros_like(t), torch.zeros_like(w)", "the gradient of input 0"),
    ],
)
def test_a_wrong_gradient_is_wrong_and_named(cpu_bench, right, wrong, title):
    assert right in RIGHT
    found = ask(cpu_bench, SCALE, RIGHT.replace(right, wrong), policy=ALL)
    assert found.verdict is Verdict.WRONG
    assert title in found.message
    assert ask(cpu_bench, SCALE, RIGHT.replace(right, wrong)).verdict is Verdict.PASS  # nobody asked for gradients


@pytest.mark.bench
def test_what_forward_keeps_belongs_to_its_own_backward(cpu_bench):
    """Another forward between forward and backward: activations kept on the class are then the other batch's."""
    kept = RIGHT.replace("ctx.save_for_backward(t, w)", "Scale.kept = t, w").replace("ctx.saved_tensors", "Scale.kept")
    found = ask(cpu_bench, SCALE, kept, policy=ALL)
    assert found.verdict is Verdict.WRONG
    assert "another forward between forward and backward" in found.message


@pytest.mark.bench
def test_a_result_without_a_gradient_is_told_apart_from_a_wrong_one(cpu_bench):
    found = ask(cpu_bench, SCALE, answer(SCALE, "return torch.tanh(x[0]).detach()"), policy=ALL)
    assert found.reason == "structure.no_gradient"
    assert "torch.autograd.Function" in found.message


@pytest.mark.bench
@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("y = torch.tanh(x[0]) * self.w\nself.w.grad = torch.ones_like(self.w)\nreturn y", "state.grad"),
        ("y = torch.tanh(x[0]) * self.w\ny.sum().backward(retain_graph=True)\nreturn y", "state.grad"),
    ],
)
def test_nothing_is_added_to_grad_behind_the_callers_back(cpu_bench, forward, reason):
    assert ask(cpu_bench, SCALE, answer(SCALE, forward), policy=ALL).reason == reason


@pytest.mark.bench
def test_backward_may_not_write_to_what_it_is_given(cpu_bench):
    over = RIGHT.replace(
        "return g * w * (1 - t * t), (g * t).sum(0)", "s = (g * t).sum(0)\n        return g.mul_(w * (1 - t * t)), s"
    )
    assert over != RIGHT
    assert ask(cpu_bench, SCALE, over, policy=ALL).reason == "state.input_changed"


ADD = problem("return x[0] + x[1]", inputs="torch.randn(16, 64), torch.randn(16, 64)")
PASSED_ON = """
class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a + b
    @staticmethod
    def backward(ctx, g):
        return FIRST, g
"""


@pytest.mark.bench
@pytest.mark.parametrize("first", ["g", "g.clone()"])
def test_a_gradient_may_be_the_cotangent_itself(cpu_bench, first):
    candidate = answer(ADD, "return Add.apply(x[0], x[1])")
    candidate = candidate.replace("class ModelNew", PASSED_ON.replace("FIRST", first) + "\nclass ModelNew")
    assert ask(cpu_bench, ADD, candidate, policy=INPUTS).verdict is Verdict.PASS


MIXED = problem(
    "y = x[0][x[1]] * self.w\nreturn y, y.argmax(-1), y.detach() * 2",
    inputs="torch.randn(16, 64), torch.randint(16, (8,)), torch.randn(3)",
    init="self.w = torch.nn.Parameter(torch.randn(64))\nself.idle = torch.nn.Parameter(torch.randn(5))",
)


@pytest.mark.bench
def test_what_has_no_gradient_needs_none(cpu_bench):
    """Integers, outputs that are detached, an input and a parameter that are not used: zeros, or nothing."""
    assert ask(cpu_bench, MIXED, answer(MIXED), policy=ALL, timing=True).verdict is Verdict.PASS
    derived = answer(MIXED, "y = x[0][x[1]] * self.w\nreturn y, y.argmax(-1), y * 2")  # more than is asked for
    assert ask(cpu_bench, MIXED, derived, policy=ALL).verdict is Verdict.PASS


@pytest.mark.bench
def test_gradients_of_parameters_need_the_references_parameters(cpu_bench):
    turned = answer(SCALE, "return torch.tanh(x[0]) * self.v[0]").replace(
        "self.w = torch.nn.Parameter(torch.randn(64))", "self.v = torch.nn.Parameter(torch.randn(1, 64))"
    ) + ("\ndef _take(self, state):\n    self.v.data.copy_(state['w'][None])\nModelNew.load_reference_state = _take\n")
    assert ask(cpu_bench, SCALE, turned, policy=INPUTS).verdict is Verdict.PASS
    found = ask(cpu_bench, SCALE, turned, policy=ALL)
    assert (found.verdict, found.reason) == (Verdict.LOAD_FAILED, "load.params")
    assert "gradients of parameters" in found.message and "missing: w" in found.message
    renamed = RIGHT.replace("self.w", "self.v")  # one parameter of that shape: matched by its position
    assert ask(cpu_bench, SCALE, renamed, policy=ALL).verdict is Verdict.PASS


@pytest.mark.bench
def test_prepare_may_rearrange_copies_and_forward_derives_by_the_parameter(cpu_bench):
    prepared = (
        RIGHT.replace("Scale.apply(x[0], self.w)", "Scale.apply(x[0], self.w, self.double)")
        .replace("def forward(ctx, x, w):", "def forward(ctx, x, w, double):")
        .replace("return t * w", "return t * double / 2")
        .replace("(g * t).sum(0)", "(g * t).sum(0), None")
    )
    prepared += "\ndef _prepare(self):\n    self.double = self.w * 2\nModelNew.prepare = _prepare\n"
    assert ask(cpu_bench, SCALE, prepared, policy=ALL).verdict is Verdict.PASS
    stale = prepared.replace("self.double = self.w * 2", "self.double = getattr(self, 'double', self.w * 2)")
    assert ask(cpu_bench, SCALE, stale, policy=ALL).verdict is not Verdict.PASS


DROPS = problem("return F.dropout(x[0] * 1, 0.5, True)")
OTHER_MASK = """
class Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = (torch.rand_like(x) < 0.5) * 2.0
        return x * ctx.mask
    @staticmethod
    def backward(ctx, g):
        return g * (torch.rand_like(g) < 0.5) * 2.0
"""


@pytest.mark.bench
def test_a_gradient_belongs_to_the_draws_of_its_forward(cpu_bench):
    assert ask(cpu_bench, DROPS, answer(DROPS), policy=INPUTS).verdict is Verdict.PASS
    other = answer(DROPS, "return Drop.apply(x[0])").replace("class ModelNew", OTHER_MASK + "\nclass ModelNew")
    assert ask(cpu_bench, DROPS, other).verdict is Verdict.PASS, "forward alone is met in distribution"
    found = ask(cpu_bench, DROPS, other, policy=INPUTS)
    assert found.verdict is Verdict.WRONG and "the gradient of input 0" in found.message


@pytest.mark.bench
@pytest.mark.parametrize(
    ("forward", "policy", "text"),
    [
        ("return x[0].argmax(-1).float()", INPUTS, "no output of the reference depends"),
        ("return x[0] * 2", Policy(gradients=Gradients.PARAMETERS), "the reference has no trained parameter"),
    ],
)
def test_a_problem_without_the_gradients_that_it_asks_for_is_refused(cpu_bench, forward, policy, text):
    source = problem(forward)
    found = ask(cpu_bench, source, answer(source), policy=policy)
    assert (found.verdict, found.reason) == (Verdict.REFUSED_PROBLEM, "problem.no_gradient")
    assert text in found.message
    report = cpu_bench.admit(ProblemSpec(source, policy=policy))
    assert (report.state, report.reason) == ("refused", "problem.no_gradient")
    assert report.stages[-1].name == "gradients" and report.stages[-1].fix


@pytest.mark.bench
def test_the_preflight_says_which_gradients_there_are_and_refuses_writing_to_inputs(cpu_bench):
    report = cpu_bench.admit(ProblemSpec(SCALE, policy=ALL))
    (stage,) = [one for one in report.stages if one.name == "gradients"]
    assert report.state == "admitted"
    assert stage.detail == "the gradient of input 0, the gradient of w"
    written = cpu_bench.admit(ProblemSpec(problem("return x[0].mul_(2)"), policy=INPUTS))
    assert written.reason == "problem.no_gradient" and "copy" in written.stages[-1].fix


VANISHES = problem(
    "return torch.softmax(x[0] * self.w + self.b, -1)",
    init="self.w = torch.nn.Parameter(torch.randn(64))\nself.b = torch.nn.Parameter(torch.randn(16, 1))",
)
SHIFTED = """
class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, b):
        return x + b
    @staticmethod
    def backward(ctx, g):
        return g, GRADIENT
"""


@pytest.mark.bench
@pytest.mark.parametrize(
    ("gradient", "passes"), [("g.sum(-1, True)", True), ("g.new_zeros(16, 1)", True), ("g.new_ones(16, 1)", False)]
)
def test_a_gradient_that_vanishes_may_be_any_rounding_and_no_more(cpu_bench, gradient, passes):
    candidate = answer(VANISHES, "return torch.softmax(Shift.apply(x[0] * self.w, self.b), -1)")
    candidate = candidate.replace("class ModelNew", SHIFTED.replace("GRADIENT", gradient) + "\nclass ModelNew")
    found = ask(cpu_bench, VANISHES, candidate, policy=ALL)
    assert (found.verdict is Verdict.PASS) == passes, found.message
    assert passes or "the gradient of b" in found.message


@pytest.mark.bench
def test_a_problem_all_of_whose_gradients_vanish_has_no_answer_to_judge_by(cpu_bench):
    alone = problem("return torch.softmax(x[0] + self.b, -1)", init="self.b = torch.nn.Parameter(torch.randn(1))")
    found = ask(cpu_bench, alone, answer(alone), policy=Policy(gradients=Gradients.PARAMETERS))
    assert (found.verdict, found.reason) == (Verdict.REFUSED_PROBLEM, "problem.ill_conditioned")


def test_a_policy_without_gradients_keeps_its_hash_and_one_with_them_has_its_own():
    plain = ProblemSpec(SCALE)
    assert Policy().to_json() == {}
    assert ProblemSpec(SCALE, policy=ALL).hash != plain.hash != ProblemSpec(SCALE, policy=INPUTS).hash
    assert Policy.from_json(ALL.to_json()) == ALL
    with pytest.raises(ValueError, match="not an equal seed"):
        Policy(equal_seeding=True, gradients=Gradients.PARAMETERS)


def test_gradients_of_inputs_alone_are_not_asked_of_parameters():
    """Parameters need no gradient then: an autograd.Function that looks at needs_input_grad saves the work."""
    layer = torch.nn.Linear(4, 4)
    calls = Calls(INPUTS)
    calls.prepare(layer, [])
    out, found = calls(layer, [torch.randn(2, 4), asked_for([torch.randn(2, 4)])])
    assert [one.shape for one in found] == [(2, 4)] and not out.requires_grad
    assert not layer.weight.requires_grad
    alone = calls(layer, forward_alone([torch.randn(2, 4), asked_for([torch.randn(2, 4)])]))
    assert alone.shape == (2, 4)


SLOW = """
import time
import torch

class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, g):
        time.sleep(2e-2)
        return g
"""


@pytest.mark.bench
@pytest.mark.quiet
def test_a_would_be_best_is_timed_in_parts(cpu_bench):
    """Eager sleeps in backward: forward alone is short."""
    source = SLOW + SCALE.replace("torch.tanh(x[0]) * self.w", "Slow.apply(torch.tanh(x[0]) * self.w)")
    job = Job("parts", ProblemSpec(source, policy=ALL), RIGHT, limits=LIMITS, beat=0.01)
    found = cpu_bench.evaluate(job)
    assert found.verdict is Verdict.PASS, found.message
    (parts,) = [one for one in found.findings if one.code == "time.parts"]
    assert parts.data["forward_us"][1] < parts.data["both_us"][1] / 2 < parts.data["backward_us"][1]
    assert parts.data["forward_us"][0] > 0
    both = next(one for one in found.timings if one.subject is Subject.CANDIDATE)
    assert parts.data["both_us"][0] == both.median_us and parts.data["basis"] == "measured"


@pytest.mark.bench
def test_kernels_of_a_backward_are_compiled_for_the_target_at_full_size(interpreter_bench):
    """Where kernels are compiled nothing is computed and large tensors have no content: autograd works all the same."""
    [entry] = chosen(entries(), ids=("h_bias_gelu_gradients",))
    job = Job("compile", replace(entry.problem, case="gpu"), entry.candidate, limits=LIMITS)
    found = interpreter_bench.compile(job)
    assert found.verdict is Verdict.COMPILED_ONLY, found.message
    assert [row["name"] for row in found.kernels] == ["gelu_rows", "gelu_rows_backward", "add_rows"]
