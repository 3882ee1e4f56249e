"""A modelled number is printed with its error, a GPU that nobody timed says so, and old numbers keep their range."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from django.template import Context, Template

from judge.bench.interpreting.calibration import (
    Calibration,
    Constants,
    Error,
    calibrations,
    claim,
    factor,
    model_for,
)
from judge.evaluations.measures import Measure
from judge.values import Basis
from tests.benchmarks.calibration.outcome import keep

MADE = Calibration(
    arch="sm_90",
    gpu="NVIDIA H200",
    date="2026-11-22",
    toolchain="torch 2.11.0 triton 3.6.0 sm_90",
    kernels=90,
    points=300,
    problems=50,
    constants=Constants(launch_us=2.0),
    time=Error(1.1, 1.52),
    speedup=Error(1.12, 1.38),
    rank=0.8,
)
KNOWN = {"sm_90": MADE}


def modelled(value: float, error: float) -> Measure:
    return Measure(value, value / error, value * error, 1, Basis.MODELLED)


def test_the_range_is_the_error_of_9_of_10_rounded_up_as_it_is_printed() -> None:
    model = model_for("sm_90", KNOWN)
    assert (model.speedup, model.time, model.here) == (1.4, 1.6, True)
    assert "within a factor of 1.4 for 9 of 10 kernels and 1.2 for half of them" in model.sentence
    assert "times within 1.6 for 9 of 10 (300 timed on an NVIDIA H200, 2026-11-22)" in model.sentence
    assert model.constants == MADE.constants


def test_a_gpu_that_nobody_timed_says_so_and_has_a_wider_range() -> None:
    model = model_for("sm_80", KNOWN)
    assert not model.here and model.sentence.startswith("Never calibrated for this GPU. On sm_90 ")
    assert model.speedup == 2.0 and model.time == 2.4  # squares, rounded up
    assert "2.0 and 2.4 are assumed here" in model.sentence


def test_without_any_calibration_the_range_is_called_assumed() -> None:
    model = model_for("sm_90", {})
    assert model.calibration is None and model.speedup > 2 and "never calibrated" in model.sentence


def test_numbers_of_another_calibration_have_another_name() -> None:
    later = {"sm_90": replace(MADE, date="2026-12-01")}
    same_day = {"sm_90": replace(MADE, constants=Constants(launch_us=2.1))}
    assert len({model_for("sm_90", known).name for known in (KNOWN, later, same_day, {})}) == 4
    assert model_for("sm_90", {"sm_90": replace(MADE)}).name == model_for("sm_90", KNOWN).name


def test_what_is_claimed_of_a_stored_factor_is_what_is_on_file() -> None:
    assert claim(1.4, KNOWN) == " for 9 of 10 kernels"
    assert claim(1.400001, KNOWN) == " for 9 of 10 kernels"
    assert claim(2.0, KNOWN) == ", assumed: never calibrated for this GPU"
    assert claim(1.7, KNOWN) == "" and claim(1.4, {}) == ""


def test_a_calibration_survives_its_file_and_replaces_the_older_one_of_its_gpu(tmp_path) -> None:
    path = tmp_path / "calibration.json"
    assert calibrations(path) == {}
    calibrations.cache_clear()
    keep(MADE, path)
    keep(replace(MADE, arch="sm_80", gpu="NVIDIA A100"), path)
    keep(replace(MADE, points=400), path)
    found = calibrations(path)
    assert found["sm_90"] == replace(MADE, points=400) and found["sm_80"].gpu == "NVIDIA A100"
    calibrations.cache_clear()


def test_a_broken_file_is_named(tmp_path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps([{"arch": "sm_90"}]))
    with pytest.raises(ValueError, match=r"calibration\.json"):
        calibrations(path)


def test_an_error_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Error(0.9, 1.2)


def test_a_modelled_speedup_is_printed_with_its_error() -> None:
    shown = modelled(2.0, 1.4)
    assert shown.interval == "within 1.4×"
    assert str(shown).startswith("2.0× MODELLED, within 1.4×")
    html = Template("{% load measures %}{% measure row %}").render(Context({"row": shown}))
    assert "<strong>2.0×</strong>" in html and "within 1.4×" in html and ">MODELLED<" in html
    assert f'title="{shown}"' in html


def test_the_number_on_file_says_for_how_many_kernels() -> None:
    model = model_for("sm_90")
    if model.calibration is None:
        pytest.skip("no calibration is on file")
    assert str(modelled(2.0, model.speedup)) == f"2.0× MODELLED, within {factor(model.speedup)} for 9 of 10 kernels"
    foreign = model_for("sm_80")
    assert str(modelled(2.0, foreign.speedup)).endswith("assumed: never calibrated for this GPU")


def test_numbers_stored_before_keep_their_range() -> None:
    old = Measure(1.83, 1.12, 2.61, 1, Basis.MODELLED)
    assert str(old) == "1.8× [1.1–2.6] MODELLED" and old.error is None
    assert str(Measure(1.0, 1.0, 1.0, 1, Basis.MODELLED)) == "1.0× [1.0–1.0] MODELLED"


def test_a_measured_number_has_an_interval_and_no_factor() -> None:
    even = Measure(2.0, 2.0 / 1.1, 2.0 * 1.1, 40, Basis.MEASURED)
    assert even.error is None and str(even) == "2.00× [1.82–2.20] n=40 measured"
