"""Child process of the built-in proposer's tests: traces, proposes, tries candidates and prints one JSON line each.

`python -m tests.search.builtin_child run|compile FOLDER PLANS [CASE...]`; `run` needs TRITON_INTERPRET=1, `compile`
must not have it and builds for sm_90. PLANS is how many structures to try beside the first.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import random
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from judge.bench.admission.graph import trace_report
from judge.bench.compiling.recorded_triton import install as install_recorder
from judge.bench.compiling.recorder import CompileFailed
from judge.bench.interpreting import interpreter
from search.proposers.builtin.candidate import Reference
from search.proposers.builtin.lowering import lower
from search.proposers.builtin.plans import Plan, neighbours, shaken, structures, traits
from search.proposers.builtin.program import Unsupported
from search.proposers.builtin.proposer import Problem
from tests.search.builtin_cases import CASES


def load(source: str, path: Path) -> ModuleType:
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def flatten(value: Any) -> list[Any]:
    return list(torch.utils._pytree.tree_flatten(value)[0])


def compare(expected: Any, got: Any) -> str:
    """Empty when equal enough, else what differs."""
    if torch.utils._pytree.tree_structure(expected) != torch.utils._pytree.tree_structure(got):
        return f"structure {torch.utils._pytree.tree_structure(got)}"
    for want, have in zip(flatten(expected), flatten(got), strict=True):
        if want.shape != have.shape or want.dtype != have.dtype:
            return f"{tuple(have.shape)} {have.dtype} for {tuple(want.shape)} {want.dtype}"
        bound = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}.get(want.dtype, 2e-5)
        scale = max(1.0, float(want.double().abs().nan_to_num(posinf=0, neginf=0).max()))
        error = float((want.double() - have.double()).abs().nan_to_num().max()) / scale
        if error > bound:
            return f"error {error:.1e}"
    return ""


def problem_of(source: str, module: ModuleType) -> Problem:
    reference = Reference(source)
    model = module.Model(*module.get_init_inputs())
    report = trace_report(model, module.get_inputs())
    assert report.graph is not None, report.reason
    program = lower(report.graph, reference.arguments)
    return Problem(reference, program, traits(program))


def plans_of(problem: Problem, most: int) -> list[Plan]:
    rng = random.Random(len(repr(problem.traits)) + most)
    found = structures(problem.traits)
    rng.shuffle(rest := found[1:])
    some = [found[0], *rest[:most]]
    other = shaken(problem.traits, some[-1], rng)
    return [*some, *neighbours(problem.traits, other, rng)[:1]]


def larger_batch(reference: torch.nn.Module, inputs: list[Any]) -> tuple[list[Any], Any] | None:
    """Inputs with a threefold first dimension and what the reference makes of them, if it takes them at all."""
    rows = inputs[0].shape[0]
    more = [
        torch.cat([x, x.flip(0), x * 0.5 if x.is_floating_point() else x]) if x.shape[0] == rows else x for x in inputs
    ]
    try:
        return more, reference(*more)
    except (RuntimeError, ValueError):
        return None


def run(name: str, module: ModuleType, problem: Problem, folder: Path, most: int) -> None:
    torch.manual_seed(0)
    reference = module.Model(*module.get_init_inputs())
    for parameter in reference.parameters():
        torch.nn.init.uniform_(parameter, -1, 1)
    inputs = module.get_inputs()
    with torch.no_grad():
        expected = reference(*inputs)
        larger = larger_batch(reference, inputs)
    for at, plan in enumerate(plans_of(problem, most)):
        row = {"name": name, "plan": plan.line(), "problem": ""}
        try:
            text = problem.source(plan)
            candidate = load(text, folder / f"{name}_{at}.py").ModelNew(*module.get_init_inputs())
            candidate.load_state_dict(reference.state_dict())
            with torch.no_grad():
                row["problem"] = compare(expected, candidate(*[x.clone() for x in inputs]))
                if not row["problem"] and larger is not None:
                    row["problem"] = compare(larger[1], candidate(*[x.clone() for x in larger[0]]))
        except Unsupported as error:
            row["problem"] = f"unsupported: {error}"
        except Exception:  # noqa: BLE001  generated code may fail in any way; the row says how
            row["problem"] = traceback.format_exc()
        sys.stdout.write(json.dumps(row) + "\n")


def build(name: str, module: ModuleType, problem: Problem, folder: Path, recorder: Any) -> None:
    """Compiles candidates; the row's problem is the compiler's message."""
    first = structures(problem.traits)[0]
    other = dataclasses.replace(first, reduce="loop", grid="stride", matmul="dot", split_k=4)
    for at, plan in enumerate((first, other)):
        row = {"name": name, "plan": plan.line(), "problem": ""}
        try:
            model = load(problem.source(plan), folder / f"{name}_{at}.py").ModelNew(*module.get_init_inputs())
            with torch.no_grad(), recorder.recording():
                model(*module.get_inputs())
        except CompileFailed as error:
            row["problem"] = f"{error.reason}: {error.message}"
        sys.stdout.write(json.dumps(row) + "\n")


def main(mode: str, folder: Path, most: int, only: list[str]) -> None:
    chosen = {name: source for name, source in CASES.items() if not only or name in only}
    modules = {name: load(source, folder / f"{name}_ref.py") for name, source in chosen.items()}
    problems = {name: problem_of(source, modules[name]) for name, source in chosen.items()}
    # The stand-ins for CUDA come after tracing: torch.export stumbles over them.
    if mode == "run":
        interpreter.install("sm_90").counts = False
        for name in chosen:
            run(name, modules[name], problems[name], folder, most)
    else:
        recorder = install_recorder(90)
        for name in chosen:
            build(name, modules[name], problems[name], folder, recorder)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
