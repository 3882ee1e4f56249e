"""Where things lie in a picture: axes, strips of samples, rooflines."""

from __future__ import annotations

from itertools import pairwise

import pytest

from adaexplore_site.core.plots import ROOF_HEIGHT, Axis, Roof, Times, roofline_plot, strips, thinned


def plain(value: float) -> str:
    return f"{value:g}"


def test_an_axis_is_logarithmic_and_keeps_what_is_beyond_at_its_ends() -> None:
    axis = Axis(1.0, 100.0)
    assert [axis.at(value) for value in (1, 10, 100, 0.5, 1000)] == [0, 50, 100, 0, 100]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.0, 100.0, ["1", "2", "5", "10", "20", "50", "100"][::2]),
        (210.0, 460.0, ["250", "300", "350", "400", "450"]),
        (0.9, 1.2, ["0.9", "0.95", "1", "1.05", "1.1", "1.15", "1.2"][1::2]),
        (1e-3, 1e6, ["0.001", "0.1", "10", "1000", "100000"]),
    ],
)
def test_ticks_are_round_and_few(low: float, high: float, expected: list[str]) -> None:
    labels = [tick.label for tick in Axis(low, high).ticks(plain, 6)]
    assert 2 <= len(labels) <= 6
    if low != 0.9:
        assert labels == expected


def test_an_axis_of_one_value_has_room_on_both_sides() -> None:
    axis = Axis.around([5.0], 2.0)
    assert (axis.low, axis.high, axis.at(5.0)) == (2.5, 10.0, 50.0)
    with pytest.raises(ValueError, match="larger"):
        Axis(1.0, 1.0)


def test_strips_share_one_axis_and_keep_their_order() -> None:
    quick = Times("this kernel", "best", [10.0, 11.0, 12.0], 10.5, 11.0, 11.5)
    slow = Times("eager", "eager", [], 19.0, 20.0, 22.0)
    found = strips([quick, slow], plain)
    assert [row.label for row in found.rows] == ["this kernel", "eager"]
    first, second = found.rows
    assert first.low < first.median < first.high < second.low < second.median < second.high
    assert len(first.ticks) == 3 and second.ticks == ()
    assert strips([], plain) is None


def test_many_samples_are_thinned_with_both_ends_kept() -> None:
    values = thinned([float(number) for number in range(10_000)], 100)
    assert (len(values), values[0], values[-1]) == (100, 0.0, 9999.0)


def test_a_roof_has_its_ridge_where_bandwidth_and_peak_meet() -> None:
    roof = Roof(flops=1e9, bytes=1e8, gb_s=1000.0, tflops=10.0)
    assert (roof.intensity, roof.ridge) == (10.0, 10.0)
    assert roof.reach(5.0) == 5e12 and roof.reach(100.0) == 1e13


def test_a_kernel_at_the_bound_lies_on_the_roof_and_a_slower_one_below() -> None:
    roof = Roof(flops=1e9, bytes=1e9, gb_s=1000.0, tflops=10.0)  # one millisecond at least
    plot = roofline_plot(roof, [("eager", "eager", 4000.0), ("fastest", "best", 1000.0)], [2000.0], plain)
    marks = {mark.label: mark for mark in plot.marks}
    assert marks["fastest"].y == plot.bound_y < plot.rug[0] < marks["eager"].y < ROOF_HEIGHT
    assert plot.slope.x2 == plot.flat.x1 and plot.slope.y2 == plot.flat.y2 <= plot.slope.y1


def test_labels_of_equal_times_are_pushed_apart_and_stay_inside() -> None:
    roof = Roof(flops=1e9, bytes=1e9, gb_s=1000.0, tflops=10.0)
    named = [(f"kernel {number}", "best", 9000.0) for number in range(5)]
    places = [mark.label_y for mark in roofline_plot(roof, named, [], plain).marks]
    assert all(after - before >= 14.9 for before, after in pairwise(places))
    assert max(places) < ROOF_HEIGHT


def test_a_problem_that_computes_nothing_has_no_roofline() -> None:
    assert roofline_plot(Roof(0.0, 1e9, 1000.0, 10.0), [], [], plain) is None
