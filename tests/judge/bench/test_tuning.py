"""The judge's autotuner: the fastest configuration wins, within its budget, on copies, once for all processes."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton")

from triton.runtime.autotuner import Autotuner  # noqa: E402
from triton.runtime.errors import OutOfResources  # noqa: E402

from judge.bench.compiling.tuning import BUDGET_S, Tuner  # noqa: E402
from judge.bench.compiling.tuning_choices import read_choices  # noqa: E402
from judge.bench.interpreting.tuning_record import Group, group_row, tuning_key  # noqa: E402
from judge.bench.processes.pool import Ticket  # noqa: E402


class Kernel:
    """In place of a compiled kernel: counts its calls and adds to its first argument."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    @staticmethod
    def fn(x: Any, n: Any, BLOCK: Any) -> None: ...

    def run(self, x: torch.Tensor, n: int, *, BLOCK: int, grid: Any, warmup: bool = False, **_: Any) -> None:
        if BLOCK == 13:
            raise OutOfResources(1, 0, "shared memory")
        self.calls.append(BLOCK)
        x.add_(1)


class Watch:
    """A stop-watch and a clock: a call takes its BLOCK in microseconds."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.at_s = 0.0

    def time_us(self, call: Any) -> float:
        call()
        us = float(self.kernel.calls[-1])
        self.at_s += us * 1e-6
        return us

    def now(self) -> float:
        return self.at_s


def tuner_of(blocks: list[int], **options: Any) -> tuple[Autotuner, Kernel]:
    kernel = Kernel()
    configs = [triton.Config({"BLOCK": block}) for block in blocks]
    tuner = Autotuner(kernel, ["x", "n", "BLOCK"], configs, ["n"], None, None, **options)
    tuner.nargs = {"x": torch.zeros(4), "n": 4}
    return tuner, kernel


def choose(tuner: Autotuner, kernel: Kernel, folder: Any, **given: Any) -> int:
    watch = Watch(kernel)
    judge = Tuner(
        given.get("tuned", []),
        given.get("choices", []),
        folder,
        time_us=watch.time_us,
        room_bytes=lambda: 1 << 30,
        now=watch.now,
    )
    best = judge.choose(tuner, {"grid": (1,)}, tuner.configs, Autotuner._bench)
    choose.seconds = watch.at_s  # type: ignore[attr-defined]
    return best.kwargs["BLOCK"]


def test_the_fastest_wins_and_the_slow_are_asked_less_often(tmp_path):
    tuner, kernel = tuner_of([512, 64, 16, 256, 32, 128])
    assert choose(tuner, kernel, tmp_path) == 16
    assert kernel.calls.count(16) > kernel.calls.count(512)


def test_the_callers_tensors_are_untouched(tmp_path):
    tuner, kernel = tuner_of([64, 32])
    before = tuner.nargs
    choose(tuner, kernel, tmp_path)
    assert tuner.nargs is before and not before["x"].any()


def test_what_does_not_fit_is_left_out(tmp_path):
    tuner, kernel = tuner_of([64, 13, 32])
    assert choose(tuner, kernel, tmp_path) == 32


def test_when_nothing_fits_the_launch_itself_may_say_why(tmp_path):
    tuner, kernel = tuner_of([13, 13])
    assert choose(tuner, kernel, tmp_path) == 13 and kernel.calls == []


def test_only_what_compiled_ahead_competes(tmp_path):
    tuner, kernel = tuner_of([16, 64, 32])
    names = [str(config) for config in tuner.configs]
    row = {"kernel": "fn", "key": "(4, 'torch.float32')", "compiled": names[1:]}
    assert choose(tuner, kernel, tmp_path, tuned=[row]) == 32
    assert 16 not in kernel.calls


def test_an_earlier_choice_is_taken_without_a_call(tmp_path):
    tuner, kernel = tuner_of([16, 64])
    row = {"kernel": "fn", "key": "(4, 'torch.float32')", "config": str(tuner.configs[1])}
    assert choose(tuner, kernel, tmp_path, choices=[row]) == 64 and kernel.calls == []


def test_the_choice_is_written_down_for_the_next_process(tmp_path):
    tuner, kernel = tuner_of([64, 32])
    choose(tuner, kernel, tmp_path)
    assert read_choices(tmp_path) == [{"kernel": "fn", "key": "(4, 'torch.float32')", "config": str(tuner.configs[1])}]


def test_a_list_is_counted_by_what_was_offered_came_late_and_did_not_compile():
    group = Group("fn", "(4,)", total=7, offered=["a", "b", "c", "d", "e"], began=0.0, guessed=False)
    for name, result in (
        ("a", {"row": {}}),
        ("b", {"error": "no"}),
        ("c", {"row": {}}),
        ("d", {"error": "no"}),
        ("e", None),
    ):
        group.current = name
        group.try_now({}, Ticket(dict, urgent=False, result=result))
    group.late = 1
    row = group_row(group)
    assert (row["compiled"], row["chosen"], row["first"]) == (["a", "c"], "a", "a")
    assert (row["total"], row["over_limit"], row["late"], row["unfit"]) == (7, 2, 1, 2)


def test_the_budget_ends_a_contest_of_slow_kernels(tmp_path):
    tuner, kernel = tuner_of([900_000 - n for n in range(8)])  # a second each
    choose(tuner, kernel, tmp_path)
    assert choose.seconds < 2 * BUDGET_S + 2


def test_a_restored_value_is_reset_by_the_candidates_own_hook(tmp_path):
    seen: list[bool] = []
    tuner, kernel = tuner_of([64, 32], pre_hook=lambda nargs, reset_only=False: seen.append(bool(nargs["x"].any())))
    choose(tuner, kernel, tmp_path)
    assert seen and not any(seen), "every trial starts from the arguments as they were"


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '[{"kernel": "a"}]', json.dumps([{"kernel": 1, "key": "", "config": ""}])]
)
def test_a_malformed_file_of_choices_counts_for_nothing(tmp_path, text):
    (tmp_path / "choices.json").write_text(text)
    assert read_choices(tmp_path) == []


def test_a_link_in_place_of_the_choices_is_not_followed(tmp_path):
    (tmp_path / "real").write_text("[]")
    (tmp_path / "choices.json").symlink_to(tmp_path / "real")
    assert read_choices(tmp_path) == []


def test_a_choice_holds_for_the_values_of_the_key_and_the_types_of_the_tensors():
    def key(n: int = 4, dtype: torch.dtype = torch.float32, **more: object) -> str:
        nargs = {"x": torch.ones(2, dtype=dtype), "n": n}
        return tuning_key(SimpleNamespace(nargs=nargs, arg_names=["x", "n", "m"], keys=["n"]), more)

    assert key(m=1) == key(m=2, BLOCK=3)
    assert len({key(), key(n=5), key(dtype=torch.float16)}) == 3
