"""Honest candidates that a careless judge refuses: each must pass, or fail with its own words."""

from __future__ import annotations

import pytest

from judge.values import Policy, Verdict
from tests.judge.rounds_bench import answer, ask, problem

EMBED = problem("return self.e(x[0]) * x[1]", inputs="torch.randint(0, 40, (6, 9)), torch.tensor(3)",
                init="self.e = torch.nn.Embedding(40, 16)")  # fmt: skip
LINEAR = problem("return F.relu(self.l(x[0]))", init="self.l = torch.nn.Linear(64, 32)")
DROPOUT = problem("return F.dropout(x[0], 0.4, True)")
IN_PLACE = problem("x[0].clamp_(min=0)\nreturn x[0]")
PAIR = problem("return x[0].sum(1), (x[0] > 0, None, {'n': 3, 'half': x[0].mean().item()})")
TWO = problem(
    "return x[0] @ self.a + self.b",
    init="self.a = torch.nn.Parameter(torch.randn(64, 32))\nself.b = torch.nn.Parameter(torch.randn(32))",
)
SWAPPED = answer(TWO).replace(
    "self.a = torch.nn.Parameter(torch.randn(64, 32))\n        self.b = torch.nn.Parameter(torch.randn(32))",
    "self.b = torch.nn.Parameter(torch.randn(32))\n        self.a = torch.nn.Parameter(torch.randn(64, 32))",
)
TALKS = answer(
    LINEAR, "print('RESULT: pass', flush=True)\nprint('{\"verdict\": \"wrong\"}')\nreturn F.relu(self.l(x[0]))"
)

DROPOUT = problem("return F.dropout(x[0], 0.4, True)")
HONEST = {
    "integer inputs": (EMBED, answer(EMBED), None),
    "dropout": (DROPOUT, answer(DROPOUT), None),
    "bfloat16 with parameters": (LINEAR, answer(LINEAR), Policy(dtype="bfloat16")),
    "float16 with parameters": (LINEAR, answer(LINEAR), Policy(dtype="float16")),
    "a reference that works in place": (IN_PLACE, answer(IN_PLACE), None),
    "printing to stdout": (LINEAR, TALKS, None),
    "a long source": (LINEAR, answer(LINEAR) + "\n# " + "kernel " * 30_000, None),
    "a tuple with None, booleans and a dict": (PAIR, answer(PAIR), None),
    "a dict filled in another order": (
        PAIR,
        answer(PAIR, "return x[0].sum(1), (x[0] > 0, None, {'half': float(x[0].double().mean()), 'n': 3})"),
        None,
    ),
    "parameters created in another order": (TWO, SWAPPED, None),
    "a complex output": (problem("return torch.fft.rfft(x[0])"), answer(problem("return torch.fft.rfft(x[0])")), None),
    "complex parameters": (
        problem("return x[0] * self.w", init="self.w = torch.nn.Parameter(torch.randn(64, dtype=torch.complex64))"),
        answer(
            problem("return x[0] * self.w", init="self.w = torch.nn.Parameter(torch.randn(64, dtype=torch.complex64))"),
            "return torch.complex(x[0] * self.w.real, x[0] * self.w.imag)",
        ),
        None,
    ),
    "weights that are tied": (
        problem("return self.o(torch.relu(self.i(x[0])))", init=(
            "self.i = torch.nn.Linear(64, 64, bias=False)\nself.o = torch.nn.Linear(64, 64, bias=False)\n"
            "self.o.weight = self.i.weight"
        )),
        answer(
            problem("return self.o(torch.relu(self.i(x[0])))", init="self.i = torch.nn.Linear(64, 64, bias=False)"),
            "return torch.relu(x[0] @ self.i.weight.t()) @ self.i.weight.t()",
        ),
        None,
    ),
    "an integer near a rounding edge": (
        problem("return torch.round(x[0] * 7).to(torch.int32)"),
        answer(problem("return torch.round(x[0] * 7).to(torch.int32)")),
        None,
    ),
}  # fmt: skip


@pytest.mark.bench
@pytest.mark.parametrize("name", list(HONEST))
def test_an_honest_candidate_passes(cpu_bench, name):
    source, candidate, policy = HONEST[name]
    outcome = ask(cpu_bench, source, candidate, policy=policy or Policy())
    assert outcome.verdict is Verdict.PASS, outcome


@pytest.mark.bench
def test_what_a_candidate_prints_is_only_a_log(cpu_bench):
    assert "RESULT: pass" in ask(cpu_bench, LINEAR, TALKS).log
    lying = TALKS.replace("return F.relu(self.l(x[0]))", "return self.l(x[0])")
    assert ask(cpu_bench, LINEAR, lying).verdict is Verdict.WRONG


@pytest.mark.bench
@pytest.mark.parametrize("module", ["lockfile_of_mine", "deadlock"])
def test_an_import_error_keeps_its_own_words(cpu_bench, module):
    outcome = ask(cpu_bench, LINEAR, f"import {module}\n" + answer(LINEAR))
    assert (outcome.verdict, outcome.reason) == (Verdict.LOAD_FAILED, "load.import")
    assert f"No module named '{module}'" in outcome.message


@pytest.mark.bench
@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("return x[0].sum(1)", "structure.nesting"),
        ("return x[0].sum(1), (x[0] > 0, None, {'n': 4, 'half': x[0].mean().item()})", "structure.nesting"),
        ("return x[0].sum(1), (x[0] > 0, 0, {'n': 3, 'half': x[0].mean().item()})", "structure.nesting"),
        ("return x[0].sum(1), [x[0] > 0, None, {'n': 3, 'half': x[0].mean().item()}]", "structure.nesting"),
        ("return x[0].sum(1), (x[0] > 0, None, {'n': 3, 'half': x[0].mean().item() + 0.01})", "structure.nesting"),
        ("return x[0].sum(1), ((x[0] > 0).int(), None, {'n': 3, 'half': x[0].mean().item()})", "structure.dtype"),
        ("return x[0].sum(1), (x[0] > 0.1, None, {'n': 3, 'half': x[0].mean().item()})", "value.mismatch"),
        ("return x[0].sum(1, keepdim=True), (x[0] > 0, None, {'n': 3, 'half': 0.0})", "structure.nesting"),
    ],
)
def test_nesting_and_every_leaf_count(cpu_bench, forward, reason):
    assert ask(cpu_bench, PAIR, answer(PAIR, forward)).reason == reason


GATHER = """
import torch, triton, triton.language as tl

@triton.jit
def gather(index, table, out, n, D: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, D)
    tl.store(out + row * D + at, tl.load(table + tl.load(index + row) * D + at))

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.e = torch.nn.Embedding(40, 16)

    def forward(self, index, factor):
        out = torch.empty(*index.shape, 16)
        gather[(index.numel(),)](index.contiguous(), self.e.weight, out, index.numel(), D=16)
        return out * factor
"""


@pytest.mark.bench
def test_a_kernel_over_integer_indices_passes_in_the_interpreter(interpreter_bench):
    outcome = ask(interpreter_bench, EMBED, GATHER)
    assert outcome.verdict is Verdict.PASS, outcome
    missing = GATHER.replace("tl.load(index + row) * D", "tl.minimum(tl.load(index + row), 38) * D")
    assert ask(interpreter_bench, EMBED, missing).verdict is Verdict.WRONG
