"""How much error is allowed, and how errors and intervals are computed."""

from __future__ import annotations

import math

import pytest
import torch

from judge.bench.device.statistics import (
    LOOKS,
    call_of,
    indifference_of,
    interval_ranks,
    kept_blocks,
    median_interval,
    paired_speedup,
)
from judge.bench.exchange.arenas import JITTER, PATTERN, capacity, host_arena, plan
from judge.bench.exchange.nested import NotCarried, TensorMeta, decode, encode
from judge.bench.exchange.poison import poison, poisoned, poisoned_allocations
from judge.bench.exchange.rows import CountedRow
from judge.bench.interpreting.targets import target
from judge.bench.interpreting.traffic import LaunchTraffic, TrafficReport
from judge.bench.judging.families import reshaped
from judge.bench.judging.parameters import redraw
from judge.bench.judging.precision import Allowed, Errors, allowed, errors, rounded
from judge.bench.judging.traits import traits_of
from judge.bench.subjects.watch import traffic_report, traffic_row


def test_errors_are_scaled_by_the_oracles_spread():
    oracle = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64) * 1e-6
    found = errors(torch.zeros(4), oracle)
    assert found.rms == pytest.approx(1.0)
    assert found.largest == pytest.approx(1.0)


def test_an_error_in_the_imaginary_part_counts():
    oracle = torch.complex(torch.tensor([1.0, -1.0]), torch.tensor([1.0, -1.0]))
    found = errors(oracle + torch.tensor([1j, 0]), oracle)
    assert found.largest == pytest.approx(1.0)


def test_a_constant_oracle_of_zero_must_be_met_exactly():
    assert errors(torch.zeros(4), torch.zeros(4)).rms == 0
    assert math.isinf(errors(torch.full((4,), 1e-30), torch.zeros(4)).rms)


def test_equal_infinities_and_nans_are_right():
    exact = torch.tensor([math.inf, math.nan, 1.0, 2.0], dtype=torch.float64)
    assert errors(exact.float(), exact).rms == 0


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_where_there_is_nothing_there_is_no_error(shape):
    nothing = torch.empty(shape, dtype=torch.float64)
    assert errors(nothing.float(), nothing) == Errors(0.0, 0.0)


def test_allowed_error_follows_the_formula():
    unit = 2.0**-24
    limit = allowed(Errors(1e-7, 2e-7), Errors(1.0, 1.0), torch.float32, 4096)
    assert limit.rms == pytest.approx(32 * unit * 64)
    assert limit.largest == pytest.approx(128 * unit * 64)
    assert allowed(Errors(1e-7, 2e-7), Errors(2e-5, 4e-5), torch.float32, 4096).rms == pytest.approx(5e-6)
    assert allowed(Errors(1e-3, 1e-3), None, torch.float16, 1).rms == pytest.approx(4e-3)


def test_a_very_long_reduction_is_no_licence_to_be_wrong():
    """A mean of thirty million numbers that is off by a hundredth is wrong: nobody adds them one after another."""
    long, longer = (allowed(Errors(1e-7, 1e-7), None, torch.float32, length, 1) for length in (1 << 16, 30_000_000))
    assert longer == long and long.largest < 5e-3
    assert long.largest > 100 * 2.0**-24 * (1 << 8)  # what adding 65,536 numbers one after another may lose


def test_tf32_keeps_ten_bits_of_mantissa():
    value = torch.tensor([1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-12, math.inf])
    assert rounded(value, "tf32").tolist() == [1 + 2**-10, 1.0, 1 + 2**-10, math.inf]


def test_longest_reduction_is_read_off_the_operators():
    assert traits_of(lambda: torch.randn(4, 300) @ torch.randn(300, 5)).length == 300
    assert traits_of(lambda: torch.randn(4, 70).sum(1)).length == 70
    assert traits_of(lambda: torch.randn(9).exp()).length == 1
    assert traits_of(lambda: torch.randn(8, 64)[:2].sum(1)).length == 64  # a view reduces nothing


def test_ties_are_open_only_where_the_places_of_equal_elements_are_used():
    x = torch.randn(4, 30)
    assert not traits_of(lambda: x.topk(3).values.sum()).ties_open
    assert not traits_of(lambda: x.sort(1)[0].clone()).ties_open
    assert not traits_of(lambda: x.median()).ties_open
    assert traits_of(lambda: [part.clone() for part in x.topk(3)]).ties_open
    assert traits_of(lambda: torch.cat([x.sort(1).indices, x.argmax(1, keepdim=True)], 1)).ties_open
    assert traits_of(lambda: x.gather(1, x.argsort(1))).ties_open
    assert traits_of(lambda: x.mode(1).values).ties_open
    assert not traits_of(lambda: torch.sort(x, stable=True, dim=1).indices.clone()).ties_open


def test_order_statistics_enclose_the_median_so_that_five_looks_err_in_one_percent():
    ranks = {16: 2, 32: 7, 64: 20, 128: 47, 256: 103}  # 1-based, from either end
    assert {n: interval_ranks(n)[0] + 1 for n in LOOKS} == ranks
    assert all(low == n - 1 - high for n in LOOKS for low, high in [interval_ranks(n)])
    assert interval_ranks(32, 0.95) == (9, 22)


def test_a_paired_speedup_is_the_median_of_ratios():
    speedup = paired_speedup([2.0, 4.0, 6.0], [1.0, 2.0, 2.0])
    assert (speedup.value, speedup.low, speedup.high, speedup.n) == (2.0, 2.0, 3.0, 3)


def test_poison_is_found_where_nothing_was_written():
    with poisoned_allocations():
        value = torch.empty(8)
    value[:5] = 1.0
    assert poisoned(value).tolist() == [False] * 5 + [True] * 3
    assert value.isnan().sum() == 3
    whole = torch.zeros(4, dtype=torch.bfloat16)
    poison(whole)
    assert poisoned(whole).all()


def test_nested_values_survive_the_exchange():
    value = ([1, 2.5, float("inf")], {"a": (torch.ones(2), None)}, "text", torch.float16)
    tensors: list[torch.Tensor] = []
    data = encode(value, lambda t: tensors.append(t) or len(tensors) - 1)
    back = decode(data, tensors.__getitem__, "cpu")
    assert back[0] == value[0] and back[2:] == value[2:]
    assert torch.equal(back[1]["a"][0], torch.ones(2))
    with pytest.raises(NotCarried, match=r"value\[0\] is a object"):
        encode([object()], lambda t: 0)


def test_an_arena_keeps_layout_and_shows_a_stray_write():
    tensors = [torch.randn(4, 6).t(), torch.arange(5), torch.randn(3, 1).expand(3, 7), torch.tensor(2.0)]
    metas = [TensorMeta.of(tensor) for tensor in tensors]
    arena, _ = host_arena(capacity(metas), "cpu")
    slots, end = plan(metas, 0, JITTER)
    assert end <= arena.memory.numel()
    arena.fill_bands(slots)
    for slot, tensor in zip(slots, tensors, strict=True):
        arena.put(slot, tensor)
        assert torch.equal(arena.fetch(slot), tensor)
    assert arena.fetch(slots[0]).stride() == tensors[0].stride()
    assert arena.broken_band(slots) is None
    arena.memory[slots[1].offset - 1] = PATTERN ^ 1
    assert arena.broken_band(slots) in (0, 1)


def test_families_keep_shape_layout_and_integers():
    torch.manual_seed(0)
    given = [torch.rand(8, 16).t(), torch.arange(4), 3]
    for family in ("centred", "scaled", "adversarial"):
        changed = reshaped(family, given)
        assert changed[0].shape == (16, 8) and changed[0].stride() == given[0].stride()
        assert not torch.equal(changed[0], given[0])
        assert torch.equal(changed[1], given[1]) and changed[2] == 3


def test_redrawn_parameters_are_no_longer_special():
    torch.manual_seed(0)
    assert redraw("norm.weight", torch.ones(64)).std() > 0.1
    assert redraw("norm.bias", torch.zeros(64)).std() > 0.1
    assert (redraw("bn.running_var", torch.ones(64)) > 0).all()
    assert torch.equal(redraw("steps", torch.tensor(3)), torch.tensor(3))


def test_counted_traffic_survives_the_wire():
    row = LaunchTraffic("k", "triton", programs=4, unique_bytes=128, dot_flops={"tf32": 64})
    assert traffic_report([CountedRow.read(traffic_row(row))]) == TrafficReport((row,))
    assert target("sm_90").sm_count == 132


def test_the_median_lies_in_its_interval_and_few_samples_give_the_whole_range():
    assert median_interval([5.0, 1.0, 3.0]) == (1.0, 3.0, 5.0)
    low, middle, high = median_interval([float(n) for n in range(32)])
    assert (low, middle, high) == (6.0, 15.5, 25.0)


@pytest.mark.parametrize(
    ("low", "high", "call"),
    [(1.02, 1.3, "faster"), (0.8, 0.98, "slower"), (0.995, 1.005, "same"), (1.005, 1.3, "ambiguous")],
)
def test_a_call_needs_the_whole_interval_beyond_the_indifference(low, high, call):
    assert call_of(low, high) == call


def test_times_too_short_for_the_clock_are_the_same_within_its_ticks():
    assert indifference_of(2.048) == pytest.approx(2 * 0.032 / 2.048)
    assert indifference_of(100.0) == indifference_of(0.0) == 0.01
    one_tick = paired_speedup([2.080] * 64, [2.048] * 64)
    assert (one_tick.call, paired_speedup([2.144] * 64, [2.048] * 64).call) == ("same", "faster")
    assert paired_speedup([208.0] * 64, [204.8] * 64).call == "faster"


def test_blocks_at_another_clock_are_left_out_but_a_fifth_at_most():
    assert kept_blocks([1980.0] * 9 + [1500.0]) == list(range(9))
    assert len(kept_blocks([1980.0] * 5 + [1200.0] * 5)) == 8
    assert kept_blocks([0.0, 0.0]) == [0, 1]


@pytest.mark.parametrize("shift", [0.0, 0.5, 20.0, 1e3])
@pytest.mark.parametrize("relative", [0.0, 1e-6, 1e-3, math.inf])
def test_a_quick_look_accepts_what_the_thorough_one_accepts(shift, relative):
    torch.manual_seed(3)
    exact = torch.randn(20_000) + shift
    value = exact + relative * torch.randn(20_000)
    found = errors(value, exact)
    for factor, right in ((1.001, True), (0.999, found.rms == 0.0)):
        limit = Allowed(factor * found.rms, factor * found.largest) if found.finite else Allowed(1.0, 1.0)
        assert limit.accepts(value, exact) is (right and found.finite)


def test_a_quick_look_takes_neither_nan_nor_overflow_for_right():
    exact = torch.randn(100)
    for bad in (math.nan, math.inf, 3e38):
        value = exact.clone()
        value[7] = bad
        assert not Allowed(0.1, 0.1).accepts(value, exact)
    assert Allowed(0.1, 0.1).accepts(exact * 1e-30, exact * 1e-30) and not Allowed(0.1, 0.1).accepts(
        exact * 2e-30, exact * 1e-30
    )


def test_one_number_may_be_off_by_what_adding_up_loses_and_no_more():
    """Half of a million numbers gives a mean that is off by a thousandth: that is no rounding."""
    exact, plain = Errors(1e-8, 1e-8), Errors(1e-7, 1e-7)
    one = allowed(exact, plain, torch.float32, 1 << 20, 1)
    assert 2 * 2.0**-24 * 256 < one.largest < 2e-4
    cancelling = allowed(exact, Errors(1e-2, 1e-2), torch.float32, 1 << 20, 1)
    assert cancelling.largest > 10 * one.largest, "content that amplifies roundings of inputs amplifies those of sums"
    assert allowed(Errors(1e-3, 1e-3), plain, torch.float32, 1 << 20, 1).largest == pytest.approx(16e-3)
    assert allowed(exact, plain, torch.float32, 1 << 20, 64) == allowed(exact, plain, torch.float32, 1 << 20)


def test_the_rms_of_a_single_number_is_its_largest_error():
    many = allowed(Errors(1e-7, 1e-7), Errors(1e-6, 1e-6), torch.float32, 4096)
    one = allowed(Errors(1e-7, 1e-7), Errors(1e-6, 1e-6), torch.float32, 4096, 1)
    assert one.rms == one.largest and many.rms < many.largest
    assert allowed(Errors(1e-7, 1e-7), None, torch.float32, 4096, 16) == allowed(
        Errors(1e-7, 1e-7), None, torch.float32, 4096
    )
