"""Random outputs of timed calls: an old answer, one mask for all and no draw at all are told from fresh draws."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from judge.bench.timing.fresh_draws import CALIBRATING, ENOUGH, NO_DRAW, NOT_NEW, FreshDraws

OTHER = torch.Generator().manual_seed(99)  # what it gives is none of the draws that are compared
Draw = Callable[[torch.Tensor], torch.Tensor]


def dropped(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.3, True)


def noisy(x: torch.Tensor) -> torch.Tensor:
    return x + 0.1 * torch.randn_like(x)


def scaled(x: torch.Tensor) -> torch.Tensor:
    """One number is drawn: two draws may be near or far."""
    return x * torch.randn(())


def told(reference: Draw, candidate: Draw, calls: int = 24, *, again: int = 4) -> str:
    """What tells `candidate`'s draws from `reference`'s over timed calls, one in `again` of them on one content."""
    torch.manual_seed(4)
    known = torch.randn(64, 256)
    draws = FreshDraws([reference(known) for _ in range(CALIBRATING)])
    for number in range(calls):
        repeated = number % again == 0
        x = known if repeated else torch.randn(64, 256)
        fault = draws.fault(candidate(x), reference(x), reference(x), again=repeated)
        if fault:
            return fault
    return draws.verdict()


@pytest.mark.parametrize("reference", [dropped, noisy, scaled])
def test_fresh_draws_are_right(reference):
    assert told(reference, reference, 200) == ""


def test_draws_that_are_rounded_otherwise_are_right():
    assert told(dropped, lambda x: dropped(x) * 1.00001) == ""
    assert told(noisy, lambda x: noisy(x).bfloat16().float()) == ""


@pytest.mark.parametrize("reference", [dropped, noisy, scaled])
def test_an_answer_of_earlier_content_is_no_draw(reference):
    old = reference(torch.randn(64, 256, generator=OTHER))
    assert told(reference, lambda x: old.clone()) in (NO_DRAW, NOT_NEW)
    assert told(reference, lambda x: reference(torch.randn(64, 256)), again=100) == NO_DRAW


def test_what_is_not_drawn_at_all_is_no_draw():
    assert told(dropped, lambda x: x) == told(noisy, lambda x: x) == NO_DRAW


def test_one_mask_for_all_calls_is_not_new():
    mask = (torch.rand(64, 256, generator=OTHER) > 0.3) / 0.7
    assert told(dropped, lambda x: x * mask, again=1000) == NOT_NEW


def test_one_noise_for_all_calls_shows_on_content_that_is_asked_again():
    noise = 0.1 * torch.randn(64, 256, generator=OTHER)
    assert told(noisy, lambda x: x + noise) == NOT_NEW
    assert told(noisy, lambda x: x + noise, again=1000) == "", "on new content it is a draw like any other"


def test_one_number_for_all_calls_is_not_new():
    assert told(scaled, lambda x: x * 0.7) == NOT_NEW


def test_zeros_that_the_content_makes_are_no_repetition():
    def positive(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(dropped(x)) * torch.tril(torch.ones(64, 256))

    assert told(positive, positive, 60) == ""


def test_where_single_calls_tell_nothing_few_of_them_are_not_enough():
    torch.manual_seed(1)
    x = torch.randn(100)
    draws = FreshDraws([scaled(x) for _ in range(CALIBRATING)])
    for _ in range(ENOUGH):
        assert not draws.told
        draws.fault(scaled(x), scaled(x), scaled(x))
    assert draws.told and FreshDraws([dropped(torch.randn(64, 256)) for _ in range(CALIBRATING)]).told
