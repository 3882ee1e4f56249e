"""A judge as benchmarks of kernels commonly have it, to compare with: reference and candidate in one fresh process.

One request on stdin, one JSON line on stdout. Equal seeds, 5 rounds of torch.allclose, 10 warm-up and 100 timed calls
with CUDA events around each. No sandbox, no other process, no check of what is timed: it runs our own kernels only.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

TOLERANCE = {"torch.float32": 1e-3, "torch.bfloat16": 2e-2, "torch.float16": 1e-2}


def main() -> None:
    """Read a request: source, candidate, case, device ("cuda" or "cpu"), rounds, warm, timed, seed."""
    request = json.load(sys.stdin)
    started = time.monotonic()
    import torch

    with tempfile.TemporaryDirectory() as folder:
        try:
            answer = _judge(torch, request, Path(folder))
        except Exception as error:  # noqa: BLE001 - whatever the kernel raised is this judge's verdict
            answer = {"verdict": "crashed", "message": f"{type(error).__name__}: {error}"[:500]}
    print(json.dumps({**answer, "inside_s": time.monotonic() - started}))


def _judge(torch: Any, request: dict[str, Any], folder: Path) -> dict[str, Any]:
    problem = _load(request["source"], folder / "problem.py")
    candidate = _load(request["candidate"], folder / "candidate.py")
    if request["case"]:
        for name, value in problem.get_cases()[request["case"]].items():
            setattr(problem, name, value)
    device = request["device"]
    torch.backends.cuda.matmul.allow_tf32 = False
    init = problem.get_init_inputs()
    models = []
    for kind in (problem.Model, candidate.ModelNew):
        torch.manual_seed(request["seed"])
        models.append(kind(*init).to(device))
    busy_us: list[float] = []
    with torch.no_grad():
        for number in range(request["rounds"]):
            inputs = _inputs(torch, problem, device, request["seed"] + number)
            expected, got = (_timed(torch, model, inputs, device, busy_us) for model in models)
            if not _close(torch, expected, got):
                return {"verdict": "wrong", "busy_s": sum(busy_us) / 1e6}
        times = [_measure(torch, model, inputs, device, request, busy_us) for model in models]
    return {"verdict": "pass", "busy_s": sum(busy_us) / 1e6, "eager_us": times[0], "candidate_us": times[1]}


def _measure(
    torch: Any, model: Any, inputs: list[Any], device: str, request: dict[str, Any], busy_us: list[float]
) -> list[float]:
    for _ in range(request["warm"]):
        _timed(torch, model, inputs, device, busy_us)
    before = len(busy_us)
    for _ in range(request["timed"]):
        _timed(torch, model, inputs, device, busy_us)
    return busy_us[before:]


def _timed(torch: Any, model: Any, inputs: list[Any], device: str, busy_us: list[float]) -> Any:
    if device != "cuda":
        started = time.perf_counter_ns()
        out = model(*inputs)
        busy_us.append((time.perf_counter_ns() - started) / 1e3)
        return out
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    out = model(*inputs)
    end.record()
    torch.cuda.synchronize()
    busy_us.append(begin.elapsed_time(end) * 1e3)
    return out


def _inputs(torch: Any, problem: ModuleType, device: str, seed: int) -> list[Any]:
    torch.manual_seed(seed)
    return [value.to(device) if isinstance(value, torch.Tensor) else value for value in problem.get_inputs()]


def _close(torch: Any, expected: Any, got: Any) -> bool:
    if isinstance(expected, torch.Tensor):
        allowed = TOLERANCE.get(str(expected.dtype), 0.0)
        return expected.shape == got.shape and bool(torch.allclose(expected, got, rtol=allowed, atol=allowed))
    return all(_close(torch, one, other) for one, other in zip(expected, got, strict=True))


def _load(source: str, path: Path) -> ModuleType:
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
