"""The timing half of repro.py with a stand-in for the GPU's clock: what it prints and what it refuses."""

from __future__ import annotations

import itertools
import runpy
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from search.interchange.exports import FOLDER

pytestmark = pytest.mark.bench


class Halves(torch.nn.Module):
    """A kernel that is right, or wrong from call number `wrong_from` on."""

    def __init__(self, wrong_from: int = 10**9) -> None:
        super().__init__()
        self.calls = itertools.count()
        self.wrong_from = wrong_from

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (0.5 if next(self.calls) < self.wrong_from else 0.25)


@pytest.fixture
def script(monkeypatch) -> dict[str, Any]:
    """The script's functions, with CUDA replaced by counters: the kernel takes 2 us, the reference 3."""
    zeros = torch.zeros
    clock = {"now": 0.0}

    class Event:
        def __init__(self, **_: Any) -> None:
            self.at = 0.0

        def record(self) -> None:
            clock["now"] += clock.get("step", 0.0)
            self.at = clock["now"]

        def elapsed_time(self, other: Event) -> float:
            return (other.at - self.at) / 1000

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Stand-in")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(L2_cache_size=4096))
    monkeypatch.setattr(torch, "zeros", lambda *size, device, **rest: zeros(16, **rest))
    functions = runpy.run_path(str(FOLDER / "repro.py.txt"))
    timed = functions["timed"]

    def stepped(module, *rest):
        clock["step"] = 2.0 if isinstance(module, Halves) else 3.0
        return timed(module, *rest)

    functions["measure"].__globals__["timed"] = stepped
    return functions


def pair(kernel: torch.nn.Module) -> SimpleNamespace:
    class Reference(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / 2

    return SimpleNamespace(model=Reference(), kernel=kernel, inputs=lambda seed: [torch.full((4,), float(seed + 1))])


def test_paired_times_become_a_speedup_with_interval_count_and_device(script, capsys):
    script["measure"](pair(Halves()), SimpleNamespace(seed=1, pairs=16), 1e-6)
    printed = capsys.readouterr().out
    assert "reference: median 3.00 µs" in printed and "as PyTorch ships" not in printed
    assert "speedup over eager: 1.500× [1.500-1.500] n=16, measured here on Stand-in" in printed


def test_a_kernel_that_errs_only_while_timed_is_wrong(script):
    with pytest.raises(script["Wrong"], match="in a timed call"):
        script["measure"](pair(Halves(wrong_from=12)), SimpleNamespace(seed=1, pairs=16), 1e-6)


def test_a_reference_that_ships_with_other_switches_is_timed_under_them_too(script, capsys):
    class Convolves(torch.nn.Module):
        def forward(self, x):
            return torch.conv1d(x[None, None], torch.full((1, 1, 1), 0.5))[0, 0]

    both = pair(Halves())
    both.model = Convolves()
    script["measure"](both, SimpleNamespace(seed=1, pairs=16), 1e-6)
    printed = capsys.readouterr().out
    assert "speedup over eager: 1.500×" in printed and "speedup over eager as PyTorch ships: 1.500×" in printed
    assert not torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(("n", "ranks"), [(16, (3, 12)), (64, (23, 40)), (1, (0, 0))])
def test_the_interval_of_the_median_comes_from_order_statistics(script, n, ranks):
    assert script["interval"](list(range(n))) == ranks
