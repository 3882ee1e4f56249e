"""The program that compute-sanitizer watches: a problem and a candidate in one process, and one call.

`python -m judge.bench.sanitizing.program REQUEST LAYERS`. The first line on stdout names the sandbox layers, before
any foreign code is loaded; the last one says that the call was made, which is the candidate's word like all else here.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from judge.bench.device import gpu
from judge.bench.foreign import factories, random_state
from judge.bench.foreign.loading import load_candidate, load_problem
from judge.bench.foreign.switches import neutral
from judge.bench.judging.parameters import named
from judge.bench.sandboxing import sandbox
from judge.bench.sandboxing.sandbox import Bounds, Layers
from judge.values import Policy

SEED = 20_001
CPU_S = 600


def call_once(request: dict[str, Any], folder: Path, device: str) -> None:
    """The candidate's forward on the problem's inputs, with the reference's parameters. What it raises comes
    through."""
    policy = Policy.from_json(request["policy"])
    neutral(policy)
    problem = load_problem(request["problem"], request["case"], folder)
    model_class = load_candidate(request["candidate"], folder)
    with torch.no_grad():
        random_state.reset(SEED)
        init = list(problem.get_init_inputs())
        random_state.reset(SEED)
        reference = factories.under(policy, problem.Model(*init), device)
        random_state.reset(SEED)
        model = factories.under(policy, model_class(*init), device)
        given = named(reference)
        if hasattr(model, "load_reference_state"):
            model.load_reference_state({name: tensor.clone() for name, tensor in given.items()})
        else:
            for name, tensor in named(model).items():
                if name in given and given[name].shape == tensor.shape:
                    tensor.copy_(given[name])
        if hasattr(model, "prepare"):
            model.prepare()
        del reference, given
        inputs = factories.made(problem.get_inputs, policy, device, SEED)
        model(*inputs)
    gpu.settle(device)


def locked(folder: Path, device: str, entered: Layers) -> Layers:
    """The sandbox, once the device's context exists."""
    if device != "cpu":
        gpu.make_context(device)
    return sandbox.lock(
        Bounds(str(folder), memory_mb=None, cpu_s=CPU_S, allow_fork=True, cuda=device != "cpu"), entered
    )


def say(row: dict[str, Any]) -> None:
    """One line on stdout."""
    sys.stdout.flush()
    os.write(1, f"\n{json.dumps(row)}\n".encode())


def main() -> None:
    request = json.loads(Path(sys.argv[1]).read_text())
    folder, device = Path(request["folder"]), request["device"]
    os.chdir(folder)
    layers = locked(folder, device, json.loads(sys.argv[-1]))
    say({"sandbox": layers})
    if sandbox.missing(layers, request["required"]):
        return  # before anybody's code runs
    try:
        call_once(request, folder, device)
    except BaseException:  # noqa: BLE001 - the entry point into foreign code
        traceback.print_exc(file=sys.stdout)
        return
    say({"called": True})


if __name__ == "__main__":
    main()
