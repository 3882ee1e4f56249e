"""Autotuners where nothing can be timed: the first configuration that the target can run is the one interpreted."""

from __future__ import annotations

from typing import Any

import triton.testing
from triton.runtime.autotuner import Autotuner

from judge.bench.interpreting.stand_in_driver import equal_times
from judge.bench.interpreting.tuning_record import tuning_key


class TunedLists:
    """Gives every autotuner one configuration: its first, until `choose` names another."""

    def __init__(self) -> None:
        self._chosen: dict[tuple[str, str], str] = {}
        self._seen: list[Any] = []

    def choose(self, rows: list[dict[str, str]]) -> None:
        """Rows of kernel, key and configuration, as the compiler found them to fit. Earlier choices are forgotten."""
        self._chosen = {(row["kernel"], row["key"]): row["config"] for row in rows}
        for tuner in self._seen:
            tuner.cache.clear()

    def install(self) -> None:
        """Replace what Triton measures by; once a process."""
        triton.testing.do_bench = _one_time
        triton.testing.do_bench_cudagraph = _one_time
        original = Autotuner.prune_configs
        lists = self

        def prune_configs(self: Any, kwargs: Any) -> Any:
            configs = list(original(self, kwargs))
            lists._seen.append(self)
            wanted = lists._chosen.get((self.base_fn.__name__, tuning_key(self, kwargs)))
            return [config for config in configs if str(config) == wanted][:1] or configs[:1]

        def bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
            del self, args, config, meta
            return list(equal_times(lambda: None))

        Autotuner.prune_configs = prune_configs
        Autotuner._bench = bench


def _one_time(fn: Any, *args: Any, quantiles: Any = None, **kwargs: Any) -> Any:
    """In place of triton.testing.do_bench: nothing runs, one millisecond."""
    del fn, args, kwargs
    return [1.0 for _ in quantiles] if quantiles else 1.0
