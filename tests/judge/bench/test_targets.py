"""The table of GPUs holds published figures and refuses names it does not know."""

from __future__ import annotations

import dataclasses

import pytest

from judge.bench.interpreting.targets import TARGETS, Target, target

ALL = sorted(TARGETS)


def test_the_six_architectures_are_there() -> None:
    assert set(TARGETS) == {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"sm_70.*sm_80.*sm_120"):
        target("sm_70")


@pytest.mark.parametrize("name", ALL)
def test_figures_are_positive_and_in_order(name: str) -> None:
    row = target(name)
    numbers = [v for v in dataclasses.astuple(row) if isinstance(v, int | float)]
    assert min(numbers) > 0
    assert row.fp64_tflops < row.fp32_tflops <= row.tf32_tflops <= row.fp16_tflops == row.bf16_tflops
    assert row.l2_gb_s > row.dram_gb_s


@pytest.mark.parametrize(("name", "arch", "capability"), [("sm_90", 90, (9, 0)), ("sm_120", 120, (12, 0))])
def test_arch_and_capability_come_from_the_name(name: str, arch: int, capability: tuple[int, int]) -> None:
    assert (target(name).arch, target(name).capability) == (arch, capability)


def test_shared_memory_is_the_opt_in_limit() -> None:
    assert target("sm_80").shared_per_block_bytes == 166912
    assert target("sm_86").shared_per_block_bytes == 101376
    assert target("sm_90").shared_per_block_bytes == 232448


def test_a_peak_of_an_unknown_kind_is_refused() -> None:
    assert target("sm_90").peak_tflops("tf32") == 494
    with pytest.raises(ValueError, match="int4"):
        target("sm_90").peak_tflops("int4")


def test_rows_cannot_be_changed() -> None:
    row: Target = target("sm_90")
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.sm_count = 1  # type: ignore[misc]
