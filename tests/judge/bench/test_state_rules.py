"""What a call may leave behind: inputs, aliases, parameters, buffers, switches, generators."""

from __future__ import annotations

import pytest
import torch

from judge.bench.exchange.claims import Forwarded
from judge.bench.exchange.fields import BadClaim, Fields
from judge.bench.foreign.aliasing import overlaps
from judge.values import DEFAULT_POLICY, Mode, Policy, Verdict
from tests.judge.rounds_bench import answer, ask, codes, problem

PLAIN = problem("return F.gelu(x[0])")
IN_PLACE = problem("x[0].mul_(1.5).add_(0.25)\nreturn x[0].sum(1)")
VIEW = problem("return x[0][:8]")


@pytest.mark.bench
@pytest.mark.parametrize(
    ("source", "forward", "reason"),
    [
        (IN_PLACE, "x[0].copy_(x[0] * 1.5 + 0.25)\nreturn x[0].sum(1)", ""),
        (IN_PLACE, "x[0].copy_(x[0] / 2 * 3 + 0.25)\nreturn x[0].sum(1)", ""),  # rounded otherwise
        (IN_PLACE, "return (x[0] * 1.5 + 0.25).sum(1)", "state.input_changed"),  # the reference writes to it
        (IN_PLACE, "y = x[0] * 1.5 + 0.25\nx[0].copy_(y * 1.01)\nreturn y.sum(1)", "state.input_changed"),
        (PLAIN, "y = F.gelu(x[0])\nx[0].zero_()\nreturn y", "state.input_changed"),
        (VIEW, "return x[0][:8]", ""),
        (VIEW, "return x[0][:8].clone()", ""),
        (problem("return x[0][:8] + 0"), "return x[0][:8]", "state.alias"),
        (problem("return x[0][:8], x[1] + 0", inputs="torch.randn(16, 64), torch.randn(4)"), "return x[0][:8], x[1]",
         "state.alias"),
    ],
)  # fmt: skip
def test_inputs_and_aliases_are_as_the_reference_leaves_them(cpu_bench, source, forward, reason):
    outcome = ask(cpu_bench, source, answer(source, forward))
    assert outcome.reason == reason, outcome
    assert outcome.verdict is (Verdict.STATE_VIOLATION if reason else Verdict.PASS)


NORM = problem("return self.n(x[0])", init="self.n = torch.nn.BatchNorm1d(64)")
FORGETS = "return F.batch_norm(x[0], None, None, self.n.weight, self.n.bias, True)"
KEEPS_ALL = (
    "self.n.num_batches_tracked += 1\n"
    "return F.batch_norm(x[0], self.n.running_mean, self.n.running_var, self.n.weight, self.n.bias, True)"
)
NO_COUNT = "return F.batch_norm(x[0], self.n.running_mean, self.n.running_var, self.n.weight, self.n.bias, True)"


@pytest.mark.bench
@pytest.mark.parametrize(
    ("forward", "mode", "words"),
    [
        (KEEPS_ALL, Mode.TRAIN, ""),
        (FORGETS, Mode.TRAIN, "running_mean"),
        (NO_COUNT, Mode.TRAIN, "num_batches_tracked"),
        ("return self.n(x[0])", Mode.EVAL, ""),
        (KEEPS_ALL, Mode.CONSTRUCTED, ""),
    ],
)
def test_running_statistics_are_compared_after_each_call(cpu_bench, forward, mode, words):
    outcome = ask(cpu_bench, NORM, answer(NORM, forward), policy=Policy(mode=mode))
    assert outcome.reason == ("state.buffers" if words else ""), outcome
    assert words in outcome.message


@pytest.mark.bench
def test_a_kernel_without_the_buffer_is_told_its_name(cpu_bench):
    own = answer(NORM, "return F.batch_norm(x[0], None, None, self.weight, self.bias, True)").replace(
        "self.n = torch.nn.BatchNorm1d(64)",
        "self.weight = torch.nn.Parameter(torch.ones(64))\n        self.bias = torch.nn.Parameter(torch.zeros(64))",
    )
    outcome = ask(cpu_bench, NORM, own)
    assert outcome.reason == "state.buffers" and "it has none of that name" in outcome.message
    assert "load.by_position" in codes(outcome)


SCALE = problem("return x[0] * self.w", init="self.w = torch.nn.Parameter(torch.rand(64) + 0.5)")


@pytest.mark.bench
@pytest.mark.parametrize(
    ("forward", "prepare", "reason"),
    [
        ("self.k = getattr(self, 'k', self.w.clone())\nreturn x[0] * self.k", "", "state.stale_params"),
        ("return x[0] * self.k", "self.k = self.w.clone()", ""),
        ("return x[0] * self.k", "self.k = self.__dict__.get('k', self.w.clone())", "state.stale_params"),
    ],
)
def test_only_prepare_may_keep_what_it_made_of_parameters(cpu_bench, forward, prepare, reason):
    source = answer(SCALE, forward)
    if prepare:
        source = source.replace("    def forward", f"    def prepare(self):\n        {prepare}\n\n    def forward", 1)
    outcome = ask(cpu_bench, SCALE, source)
    assert outcome.reason == reason, outcome
    assert ("time.prepare" in codes(outcome)) is bool(prepare)


@pytest.mark.bench
@pytest.mark.parametrize(
    ("head", "forward", "name"),
    [
        ("torch.backends.cuda.matmul.allow_tf32 = True", "return F.gelu(x[0])", "cuda.matmul.allow_tf32"),
        ("torch.set_float32_matmul_precision('high')", "return F.gelu(x[0])", "float32_matmul_precision"),
        ("", "torch.set_default_dtype(torch.float64)\nreturn F.gelu(x[0])", "default_dtype"),
        ("", "torch.use_deterministic_algorithms(True)\nreturn F.gelu(x[0])", "deterministic_algorithms"),
        ("", "torch.set_num_threads(7)\nreturn F.gelu(x[0])", "num_threads"),
        ("", "torch.set_grad_enabled(True)\nreturn F.gelu(x[0])", "grad_mode"),
        ("", "torch.rand(3)\nreturn F.gelu(x[0])", "random_state"),
        ("", "torch.manual_seed(0)\nreturn F.gelu(x[0])", "random_state"),
        ("torch._C._accelerator_setAllocatorSettings('expandable_segments:True')", "return F.gelu(x[0])", "allocator"),
    ],
)
def test_a_turned_switch_is_told_and_costs_no_verdict(cpu_bench, head, forward, name):
    if "_accelerator" in head and not hasattr(torch._C, "_accelerator_setAllocatorSettings"):
        pytest.skip("this torch cannot read its allocator's settings")
    source = answer(PLAIN, forward).replace("import torch\n", f"import torch\n{head}\n", 1)
    outcome = ask(cpu_bench, PLAIN, source)
    assert outcome.verdict is Verdict.PASS, outcome
    assert name in codes(outcome)["state.flags"]


@pytest.mark.bench
def test_what_leaves_the_switches_alone_is_not_told_of(cpu_bench):
    assert ask(cpu_bench, PLAIN, answer(PLAIN)).findings == ()


@pytest.mark.bench
def test_a_switch_does_not_survive_the_call_that_turned_it(cpu_bench):
    """A later call would compute its float64 constant in another type than the first."""
    forward = "y = F.gelu(x[0]) * torch.tensor(1.0)\ntorch.set_default_dtype(torch.float64)\nreturn y"
    assert ask(cpu_bench, PLAIN, answer(PLAIN, forward)).verdict is Verdict.PASS


@pytest.mark.bench
def test_generators_stand_where_the_references_stood(cpu_bench):
    source = problem("return x[0] * torch.rand(64)")
    assert ask(cpu_bench, source, answer(source)).verdict is Verdict.PASS
    numpy = problem("return x[0] * torch.from_numpy(np.random.rand(64)).float()", head="import numpy as np")
    assert ask(cpu_bench, numpy, answer(numpy)).verdict is Verdict.PASS


def test_overlaps_are_told_by_addresses():
    base = torch.zeros(16)
    assert overlaps([base[8:], torch.zeros(4), base[:0]], [base[:8], base[4:12]]) == [[0, 1]]
    assert overlaps([base.view(4, 4).t()], [base]) == [[0, 0]]


@pytest.mark.parametrize(
    "field", [{"alias": [[0]]}, {"alias": "x"}, {"missing": [3]}, {"drew": 1}, {"grads": "no"}, {"alias": [[0, True]]}]
)
def test_what_a_call_says_it_left_behind_is_checked_for_form(field):
    honest = {"template": {"v": None}, "metas": [], "stored": True}
    assert Forwarded.read(Fields(honest, "a reply")).stored
    with pytest.raises(BadClaim):
        Forwarded.read(Fields(honest | field, "a reply"))


def test_the_default_policy_asks_for_nothing():
    assert DEFAULT_POLICY.to_json() == {}
