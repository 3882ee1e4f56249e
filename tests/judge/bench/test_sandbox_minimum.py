"""What JUDGE_MIN_SANDBOX demands, and what is said at a start on a machine that lacks a strong layer."""

from __future__ import annotations

import dataclasses

import pytest

from judge.bench.sandboxing import landlock, seccomp
from judge.bench.sandboxing.minimum import available_strong, gaps, required_layers
from judge.devices.system_checks import minimum_sandbox_names_layers
from judge.doctor.report import warnings
from tests.judge.doctor.test_doctor import HOST


def test_auto_asks_for_what_this_kernel_has() -> None:
    wanted = required_layers("auto")
    assert {"rlimits", "no_new_privs"} <= wanted
    assert ("landlock" in wanted) == (landlock.abi() > 0)
    assert ("seccomp" in wanted) == seccomp.available()
    assert set(gaps()) == {"landlock", "seccomp"} - wanted


@pytest.mark.parametrize(
    ("version", "takes", "strong", "lacks"),
    [
        (7, True, ("landlock", "seccomp"), ()),
        (1, False, ("landlock",), ("seccomp",)),
        (0, True, ("seccomp",), ("landlock",)),
        (0, False, (), ("landlock", "seccomp")),
    ],
)
def test_auto_is_the_strong_layers_of_the_machine_and_what_every_kernel_has(
    monkeypatch, version, takes, strong, lacks
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: version)
    monkeypatch.setattr(seccomp, "available", lambda: takes)
    assert (available_strong(), gaps()) == (strong, lacks)
    assert required_layers("auto") == {"rlimits", "no_new_privs", *strong}
    assert required_layers("auto, landlock,,process_limit") == required_layers("auto") | {"landlock", "process_limit"}


def test_every_layer_can_be_asked_for_and_nothing_else() -> None:
    layers = (
        "landlock", "seccomp", "namespaces", "files", "rlimits", "memory_limit", "process_limit", "no_new_privs",
        "capabilities",
    )  # fmt: skip
    for name in layers:
        assert required_layers(name) == {name}
    with pytest.raises(ValueError) as refused:
        required_layers("zebra,seccomp,landlok,auto")
    assert str(refused.value) == f"unknown sandbox layers: landlok, zebra; known are auto, {', '.join(layers)}"


def test_names_are_taken_as_written_and_add_to_auto() -> None:
    assert required_layers(" rlimits , landlock ") == {"rlimits", "landlock"}
    assert required_layers("auto,namespaces") == required_layers("auto") | {"namespaces"}
    assert required_layers("") == frozenset()


def test_a_name_that_is_no_layer_is_an_error_of_the_settings(settings) -> None:
    settings.JUDGE_MIN_SANDBOX = "landlock,secomp"
    (error,) = minimum_sandbox_names_layers(None)
    assert error.id == "judge.E001" and "secomp" in error.msg and "seccomp" in (error.hint or "")
    settings.JUDGE_MIN_SANDBOX = "auto"
    assert minimum_sandbox_names_layers(None) == []


def test_a_whole_machine_is_told_nothing() -> None:
    assert warnings("auto", missing=()) == []


@pytest.mark.parametrize(
    ("minimum", "said"),
    [("rlimits", "could read and write files"), ("rlimits,landlock", "nothing uploaded will run")],
)
def test_without_landlock_every_start_says_what_that_means_and_what_to_change(minimum, said) -> None:
    old = dataclasses.replace(HOST, kernel="5.4.0", landlock="ENOSYS")
    text = "\n".join(warnings(minimum, missing=("landlock",), host=old))
    assert said in text and "5.13 or newer" in text and "judge_doctor" in text
    assert ("insist with" in text) == ("landlock" not in minimum)
