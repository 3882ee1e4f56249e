"""Spaces of the laboratory: timed ones read from files, synthetic ones with a known optimum."""

from __future__ import annotations

import gzip
from random import Random

import pytest

from search.lab.spaces import REFUSED, Outcome, SpaceRejected, large_step, read_space, small_step, synthetic_spaces
from tests.search.lab_spaces import HILL, cache, result

ROWS = (
    result(4.0, x=16, y=1, fixed=7),
    result(2.0, x=32, y=1, fixed=7),
    result(1.0, x=32, y=2, fixed=7),
    result("failed", "compile", x=64, y=1, fixed=7),
    result("failed", "runtime", x=64, y=2, fixed=7),
)


def test_a_cache_is_read_with_the_median_as_its_reference(tmp_path):
    space = read_space(cache(tmp_path, *ROWS))
    assert (space.name, space.sizes, space.optimum) == ("tiny", (3, 2), 2.0)
    assert space.outcome((1, 1)) == Outcome(True, 2.0)
    assert space.outcome((0, 0)) == Outcome(True, 0.5)


def test_failures_and_what_is_not_listed_are_told_apart(tmp_path):
    space = read_space(cache(tmp_path, *ROWS))
    assert space.outcome((2, 0)) == REFUSED  # does not compile
    assert space.outcome((2, 1)) == Outcome(True)  # loads, and fails
    assert space.outcome((0, 1)) == REFUSED  # not listed


def test_a_gzipped_cache_is_the_same_space(tmp_path):
    plain = cache(tmp_path, *ROWS)
    packed = tmp_path / "tiny_T4.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_space(packed) == read_space(plain)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.json", b"[1]", "not a Kernel Tuner T4 cache"),
        ("a.json", b"{}", "not a Kernel Tuner T4 cache"),
        ("a.json", b'{"results": [{}]}', "not a Kernel Tuner T4 cache"),
        ("a.json.gz", gzip.compress(b"{}" * 999, mtime=0)[:30], "not a whole gzip file"),
        ("a.json.gz", b"no gzip", "not a whole gzip file"),
    ],
)
def test_a_file_that_is_no_cache_is_refused_by_name(tmp_path, name, data, words):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(SpaceRejected, match=rf"{name}.*{words}"):
        read_space(path)


def test_a_cache_without_a_choice_or_a_correct_row_is_refused(tmp_path):
    for rows in ((result(1.0, x=1),), (result("no", "runtime", x=1), result("no", "runtime", x=2))):
        with pytest.raises(SpaceRejected, match="holds no correct configuration"):
            read_space(cache(tmp_path, *rows))


def test_the_given_caches_are_read(fixtures_dir):
    spaces = [read_space(path) for path in sorted((fixtures_dir / "kernel_spaces").glob("*.gz"))]
    assert [space.name for space in spaces] == ["convolution_A100", "convolution_A4000", "convolution_W6600"]
    assert [round(space.optimum, 1) for space in spaces] == [3.3, 3.2, 31.9]  # over the median of each
    assert all(space.sizes == (16, 5, 2, 4, 4, 2, 2) for space in spaces)


@pytest.mark.parametrize("space", synthetic_spaces(), ids=lambda space: space.name)
def test_a_landscape_keeps_its_optimum(space):
    rng = Random(0)
    points = [tuple(rng.randrange(size) for size in space.sizes) for _ in range(3000)]
    speedups = [space.outcome(point).speedup for point in points]
    assert space.outcome(space.outcome.target).speedup == pytest.approx(space.optimum)
    assert all(speedup is None or 0.5 - 1e-9 <= speedup <= space.optimum + 1e-9 for speedup in speedups)


def test_each_landscape_is_hard_in_its_own_way():
    plateaus, traps, holes = synthetic_spaces()
    rng = Random(1)
    points = [tuple(rng.randrange(size) for size in plateaus.sizes) for _ in range(500)]
    neutral = [plateaus.outcome(p) == plateaus.outcome(small_step(plateaus, p, rng)) for p in points]
    assert sum(neutral) > 250
    invalid = sum(holes.outcome(point).speedup is None for point in points)
    assert 150 < invalid < 350
    target = traps.outcome.target
    near = ((target[0] + 1) % 5, *target[1:])
    far = ((target[0] + 2) % 5, (target[1] + 2) % 5, *target[2:])
    assert traps.outcome(near).speedup < traps.outcome(far).speedup < traps.outcome(target).speedup


def test_a_small_step_changes_one_or_two_parameters():
    rng, start = Random(2), (3, 3, 3)
    steps = [small_step(HILL, start, rng) for _ in range(200)]
    changed = {sum(a != b for a, b in zip(step, start, strict=True)) for step in steps}
    assert changed == {1, 2}
    assert all(0 <= value < 6 for step in steps for value in step)


def test_a_large_step_mixes_its_pool_or_begins_anew():
    rng, pool = Random(3), [(0, 0, 0), (5, 5, 5)]
    steps = [large_step(HILL, pool, rng) for _ in range(400)]
    kept = sum(set(step) <= {0, 5} for step in steps)
    assert 40 < kept < 200  # of the half that is mixed, those without a mutation that shows
    assert len({large_step(HILL, [], rng) for _ in range(300)}) > 100
