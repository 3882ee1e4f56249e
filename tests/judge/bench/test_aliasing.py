"""Whose memory an output lies in: an input's, the model's own, or that of an earlier output which the model holds."""

from __future__ import annotations

import torch

from judge.bench.foreign.aliasing import HandedOut


def test_an_output_that_is_dropped_may_give_its_memory_to_the_next() -> None:
    handed_out = HandedOut()
    for _ in range(20):
        out = torch.ones(64)
        assert handed_out.kept([out], [], []) == []
        del out


def test_memory_that_the_model_holds_is_told_when_it_comes_again() -> None:
    handed_out, block = HandedOut(), torch.zeros(2, 64)
    assert handed_out.kept([torch.ones(4), block[0]], [], []) == []
    assert handed_out.kept([block[1].view(8, 8), torch.ones(4)], [], []) == []
    assert handed_out.kept([torch.ones(4), block[0, 10:20]], [], []) == [1]


def test_what_the_caller_gave_is_not_the_model_s() -> None:
    handed_out, given = HandedOut(), torch.zeros(64)
    for _ in range(3):
        assert handed_out.kept([given[8:], given.view(8, 8)], [given], []) == []


def test_parameters_and_buffers_are_the_model_s_from_the_first_call_on() -> None:
    table = torch.nn.Parameter(torch.zeros(8, 8))
    assert HandedOut().kept([table.clone(), table[2:4], table], [], [table]) == [1, 2]


def test_empty_outputs_lie_nowhere() -> None:
    handed_out, empty = HandedOut(), torch.zeros(0)
    assert handed_out.kept([empty, empty], [empty], [empty]) == handed_out.kept([empty], [], []) == []
