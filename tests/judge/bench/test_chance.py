"""Random references: equal draws pass at once; other draws must have the reference's distribution."""

from __future__ import annotations

import pytest
import torch

from judge.bench.judging.stochastic import DRAWS, ByChance, Draws, difference
from judge.values import Verdict
from tests.judge.rounds_bench import answer, ask, problem

X = torch.linspace(-2, 3, 32 * 48).reshape(32, 48)


def dropped(keep: float, *, scale: bool = True, by_row: bool = False) -> torch.Tensor:
    mask = torch.rand(32, 1 if by_row else 48) < keep
    return X * mask / (keep if scale else 1.0)


def _masks(rows: int, columns: int = 48) -> torch.Tensor:
    """Drawn once for several elements when it is repeated."""
    return torch.rand(rows, columns) < 0.7


def told(one, other) -> str:
    """What tells `other`'s draws from `one`'s."""
    torch.manual_seed(3)
    ours, theirs = ([Draws.sampled(make(), 7) for _ in range(DRAWS)] for make in (one, other))
    return difference(Draws.of(ours), Draws.of(theirs), torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: dropped(0.7), ""),
        (lambda: dropped(0.7) * 1.0001, ""),  # rounded otherwise
        (lambda: dropped(0.72), "share of exact zeros"),
        (lambda: dropped(0.7, scale=False), "mean"),
        (lambda: dropped(0.7, by_row=True), "varies"),
        (lambda: X.clone(), "share of exact zeros"),
        (lambda: dropped(0.7).flip(1), "mean"),
        (lambda: dropped(0.7) * float("nan"), "NaN"),
        (lambda: X * _masks(16).repeat(2, 1) / 0.7, "change together"),
        (lambda: X * _masks(32, 24).repeat_interleave(2, 1) / 0.7, "change together"),
    ],
)
def test_dropout_of_another_kind_is_told_apart(make, words):
    found = told(lambda: dropped(0.7), make)
    assert (words in found) if words else found == ""


def test_one_mask_for_all_calls_is_told_apart():
    torch.manual_seed(11)
    mask = torch.rand(32, 48) < 0.7
    assert told(lambda: dropped(0.7), lambda: X * mask / 0.7)


def test_noise_of_another_width_is_told_apart_and_correlated_noise_is_not_doubted():
    assert "variance" in told(lambda: X + torch.randn(32, 48), lambda: X + 1.2 * torch.randn(32, 48))
    assert told(lambda: X * torch.randn(()), lambda: X * torch.randn(())) == ""
    swapped = X.flip(0)
    assert told(lambda: torch.randn(32, 48) * (1 + X), lambda: torch.randn(32, 48) * (1 + X)) == ""
    assert told(lambda: torch.rand(32, 48) + X, lambda: torch.rand(32, 48) + swapped)


def test_a_mask_that_the_reference_itself_repeats_is_no_fault():
    def repeated() -> torch.Tensor:
        return X * _masks(16).repeat(2, 1) / 0.7

    assert told(repeated, repeated) == ""


def test_elements_that_never_change_must_be_equal():
    fixed = torch.ones(32, 48)
    assert told(lambda: torch.cat([X, dropped(0.5)]), lambda: torch.cat([X + fixed, dropped(0.5)]))


def test_one_timed_call_is_looked_at_roughly():
    torch.manual_seed(0)
    limit, right = ByChance(), dropped(0.7)
    assert limit.accepts(dropped(0.7), right, gain=4.0)
    for wrong in (torch.zeros_like(X), X * 3, dropped(0.2), right * float("nan"), right[:4]):
        assert not limit.accepts(wrong, right, gain=1.0)


DROPOUT = problem("return F.dropout(x[0], 0.3, True) * self.w", init="self.w = torch.nn.Parameter(torch.ones(64))")
OWN_DRAWS = "m = torch.empty(x[0].shape).bernoulli_({keep})\nreturn x[0] * m / {scale} * self.w"


@pytest.mark.bench
@pytest.mark.parametrize(
    ("forward", "verdict"),
    [
        ("return F.dropout(x[0], 0.3, True) * self.w", Verdict.PASS),
        ("m = torch.rand(x[0].shape[::-1]).t() > 0.3\nreturn x[0] * m / 0.7 * self.w", Verdict.PASS),
        ("m = torch.rand(x[0].shape[::-1]).t() > 0.35\nreturn x[0] * m / 0.65 * self.w", Verdict.WRONG),
        ("m = torch.rand(x[0].shape[::-1]).t() > 0.3\nreturn x[0] * m * self.w", Verdict.WRONG),
        ("return x[0] * self.w", Verdict.WRONG),
        ("m = torch.rand(x[0].shape[::-1]).t() > 0.3\nreturn x[0] * m / 0.7", Verdict.WRONG),  # right until w changes
    ],
)
def test_dropout_passes_on_equality_or_in_distribution(cpu_bench, forward, verdict):
    outcome = ask(cpu_bench, DROPOUT, answer(DROPOUT, forward))
    assert outcome.verdict is verdict, outcome
    if verdict is Verdict.PASS:
        assert any("64 calls" in case.detail for case in outcome.cases) is ("rand(" in forward)


@pytest.mark.bench
def test_other_draws_are_timed_too(cpu_bench):
    forward = "m = torch.rand(x[0].shape[::-1]).t() > 0.3\nreturn x[0] * m / 0.7 * self.w"
    outcome = ask(cpu_bench, DROPOUT, answer(DROPOUT, forward), timing=True)
    assert outcome.verdict is Verdict.PASS and outcome.speedup is not None, outcome
    lazy = forward + " if self.__dict__.setdefault('n', []).append(1) or len(self.n) < 140 else x[0] * 0"
    assert ask(cpu_bench, DROPOUT, answer(DROPOUT, lazy), timing=True).reason == "time.wrong_output"


@pytest.mark.bench
def test_what_the_reference_does_not_draw_is_compared_element_by_element(cpu_bench):
    source = problem("return F.dropout(x[0], 0.3, True), x[0].sum(1), x[0].argmax(1)")
    own = "m = torch.rand(x[0].shape[::-1]).t() > 0.3\nreturn x[0] * m / 0.7, x[0].sum(1){}, x[0].argmax(1){}"
    assert ask(cpu_bench, source, answer(source, own.format("", ""))).verdict is Verdict.PASS
    assert ask(cpu_bench, source, answer(source, own.format(" * 1.001", ""))).verdict is Verdict.WRONG
    assert ask(cpu_bench, source, answer(source, own.format("", " + 1"))).verdict is Verdict.WRONG


@pytest.mark.bench
def test_a_reference_that_draws_nothing_gets_no_such_grace(cpu_bench):
    source = problem("return F.gelu(x[0])")
    noisy = answer(source, "return F.gelu(x[0]) * (torch.rand(64) > 0.3) / 0.7")
    assert ask(cpu_bench, source, noisy).verdict is Verdict.WRONG
