"""Triton's autotuner under the judge's own stop-watch: successive halving in two seconds, on scratch copies.

Only configurations that compiled for the target compete. The choice is remembered for the candidate's next processes.
It is made in the candidate's process, about nothing but its own speed.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from triton.runtime.autotuner import Autotuner

from judge.bench.compiling.scratch import Scratch
from judge.bench.compiling.tuning_choices import Choice, write_choices
from judge.bench.device.clocks import make_clock
from judge.bench.interpreting.tuning_record import tuning_key

BUDGET_S = 2.0
COMPILE_S = 20.0  # for configurations that nobody compiled ahead
MOST_CONFIGS = 64
FIRST_CALLS = 2  # of each configuration; twice as many for each half that is left
MOST_CALLS = 64
ROOM = 0.5  # share of the free memory that copies may take

Stopwatch = Callable[[Callable[[], object]], float]  # microseconds of one call


class Tuner:
    """Chooses configurations. `tuned`: rows of tuning_record.group_row; `choices`: what earlier processes chose."""

    def __init__(
        self,
        tuned: list[dict[str, Any]],
        choices: list[Choice],
        folder: Path,
        *,
        time_us: Stopwatch,
        room_bytes: Callable[[], int],
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._compiled = {(row["kernel"], row["key"]): set(row["compiled"]) for row in tuned}
        self._chosen = {(row["kernel"], row["key"]): row["config"] for row in choices}
        self._folder = folder
        self._time_us = time_us
        self._room_bytes = room_bytes
        self._now = now

    def choose(self, tuner: Any, kwargs: dict[str, Any], configs: list[Any], bench: Callable[..., Any]) -> Any:
        """One of `configs` for the call whose arguments `tuner` holds; `bench` is Triton's own `_bench`."""
        place = (tuner.base_fn.__name__, tuning_key(tuner, kwargs))
        known = next((config for config in configs if str(config) == self._chosen.get(place)), None)
        if known is not None:
            return known
        names = self._compiled.get(place)
        if names:
            configs = [config for config in configs if str(config) in names] or configs
        best = self._halved(tuner, kwargs, configs[:MOST_CONFIGS], bench)
        self._chosen[place] = str(best)
        rows = [{"kernel": kernel, "key": key, "config": config} for (kernel, key), config in self._chosen.items()]
        write_choices(self._folder, rows)
        return best

    def _halved(self, tuner: Any, kwargs: dict[str, Any], configs: list[Any], bench: Callable[..., Any]) -> Any:
        if len(configs) == 1:
            return configs[0]
        trial = _Trial(tuner, Scratch(tuple(tuner.nargs.values()), kwargs, self._room_bytes()), bench, self._time_us)
        try:
            return self._contest(trial, configs)
        finally:
            trial.leave()

    def _contest(self, trial: _Trial, configs: list[Any]) -> Any:
        """Half of the field leaves after each round; who is left is measured twice as often."""
        started = self._now()
        left = [config for config in configs if self._now() - started < COMPILE_S and trial.runs(config)]
        if not left:
            return configs[0]  # none runs: the launch itself says why
        started, calls = self._now(), FIRST_CALLS
        while len(left) > 1:
            times: dict[int, float] = {}
            for number, config in enumerate(left):
                if times and self._now() - started > BUDGET_S:
                    break
                times[number] = trial.median_us(config, calls)
            ranked = sorted(times, key=times.__getitem__)
            left = [left[number] for number in ranked[: max(1, len(ranked) // 2)]]
            calls = min(2 * calls, MOST_CALLS)
            if self._now() - started > BUDGET_S:
                break
        return left[0]


class _Trial:
    """Runs configurations of one autotuner on scratch copies, with its own hooks around them."""

    def __init__(self, tuner: Any, scratch: Scratch, bench: Callable[..., Any], time_us: Stopwatch) -> None:
        self.tuner, self.scratch, self._bench, self._time_us = tuner, scratch, bench, time_us
        self._nargs = tuner.nargs
        tuner.nargs = dict(zip(tuner.nargs, scratch.args, strict=True))

    def leave(self) -> None:
        """Give the autotuner its real arguments back."""
        self.tuner.nargs = self._nargs

    def runs(self, config: Any) -> bool:
        """Load it and run it once. False for what Triton's autotuner forgives: too large, refused by the assembler."""

        def once(call: Callable[[], object], **_: Any) -> list[float]:
            self.scratch.restore()
            call()
            self.scratch.note_written()
            return [0.0] * 3

        return math.isfinite(self._call(config, once))

    def median_us(self, config: Any, calls: int) -> float:
        def several(call: Callable[[], object], **_: Any) -> list[float]:
            found = []
            for _number in range(calls):
                self.scratch.restore()
                found.append(self._time_us(call))
            return [statistics.median(found)] * 3

        return self._call(config, several)

    def _call(self, config: Any, benchmarker: Callable[..., list[float]]) -> float:
        self.tuner.__dict__["do_bench"] = benchmarker
        times = self._bench(self.tuner, *self.scratch.args, config=config, **self.scratch.kwargs)
        return float(times[0])


def install(payload: dict[str, Any], folder: Path, device: str) -> None:
    """Let every autotuner of this process choose that way. Before the candidate is imported."""
    clock: Any = None

    def time_us(call: Callable[[], object]) -> float:
        nonlocal clock
        clock = clock or make_clock(device)
        clock.start(flush=True)
        call()
        return float(clock.stop())

    def room_bytes() -> int:
        return int(torch.cuda.mem_get_info(device)[0] * ROOM)

    tuner = Tuner(payload.get("tuned", []), payload.get("choices", []), folder, time_us=time_us, room_bytes=room_bytes)
    replace_benchmarks(tuner)


def replace_benchmarks(judge: Tuner) -> None:
    """Triton asks for the list first and benches every entry of it: it is given the winner alone."""
    prune, bench = Autotuner.prune_configs, Autotuner._bench

    def prune_configs(self: Any, kwargs: Any) -> Any:
        return [judge.choose(self, kwargs, list(prune(self, kwargs)), bench)]

    def benched(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        return [1.0] * 3

    Autotuner.prune_configs = prune_configs
    Autotuner._bench = benched
