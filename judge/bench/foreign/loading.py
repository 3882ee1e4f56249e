"""Turns uploaded text into live modules. Runs only inside bench children: importing is running somebody else's code."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from judge.bench.foreign.sources import LoadError, check_text, raised
from judge.bench.foreign.whereabouts import CASES, IMPORT, INIT_INPUTS, INPUTS, MODEL, SILENT, Whereabouts
from judge.values import JudgeError
from judge.values.texts import uniform_text
from judge.values.weights import WEIGHT, check_number, weight_of

PROBLEM = "problem"  # module name, so the file is problem.py
CANDIDATE = "candidate"

__all__ = ["CANDIDATE", "PROBLEM", "LoadError", "LoadedProblem", "load_candidate", "load_problem", "write_module"]


@dataclass(frozen=True)
class LoadedProblem:
    """A problem imported with one case applied. The factories read the module's constants each time they are called.

    `weights`: of each case that counts for the speedup, how much; empty where only the evaluated one is timed.
    `whereabouts` hears of every call of `Model` and the factories; whoever calls the model itself reports it.
    """

    module: ModuleType
    Model: Callable[..., Any]
    get_inputs: Callable[[], Any]
    get_init_inputs: Callable[[], Any]
    cases: dict[str, dict[str, Any]]
    case: str | None
    weights: dict[str, float]
    whereabouts: Whereabouts


def write_module(source: str, folder: Path | str, name: str) -> ModuleType:
    """Write `folder/name.py` and import it as `name`. A real file, because Triton reads kernels back from their file.

    The file is not decoded again: what is compiled is the text that was checked. Raises LoadError ("source.*" for text
    that reads otherwise elsewhere, "load.import" when the module's own code raises anything, SystemExit included).
    """
    check_text(source)
    text = uniform_text(source)
    path = Path(folder) / f"{name}.py"
    path.write_bytes(text.encode())
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise JudgeError(f"no importer for {path.name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
    except MemoryError:
        raise
    except BaseException as error:  # the module may raise anything at all, SystemExit too
        sys.modules.pop(name, None)
        raise raised("load.import", f"importing {path.name}", error, path) from error
    return module


def load_problem(source: str, case: str | None, folder: Path | str, whereabouts: Whereabouts = SILENT) -> LoadedProblem:
    """Import a problem and set the constants of `case` (None: as written). Raises LoadError."""
    with whereabouts.inside(IMPORT):
        module = write_module(source, folder, PROBLEM)
    parts: dict[str, Callable[[], Any]] = {}
    for name in ("Model", "get_inputs", "get_init_inputs"):
        part = getattr(module, name, None)
        if not callable(part):
            raise LoadError("source.no_model", f"the module needs a callable `{name}` at its top level")
        parts[name] = part
    with whereabouts.inside(CASES):
        cases, weights = _declared_cases(module, Path(folder) / f"{PROBLEM}.py")
    if case is not None:
        if case not in cases:
            known = ", ".join(sorted(cases)) or "none"
            raise LoadError("load.case", f"get_cases() declares no case {case!r} (declared: {known})")
        for constant, value in cases[case].items():
            setattr(module, constant, value)
    model = parts["Model"]
    if not isinstance(model, type):
        raise LoadError("source.no_model", "`Model` must be a class")
    return LoadedProblem(
        module,
        whereabouts.declared(MODEL, model),
        whereabouts.declared(INPUTS, parts["get_inputs"]),
        whereabouts.declared(INIT_INPUTS, parts["get_init_inputs"]),
        cases,
        case,
        weights,
        whereabouts,
    )


def _declared_cases(module: ModuleType, path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """(constants by case, weights of the cases that have one)."""
    factory = getattr(module, "get_cases", None)
    if factory is None:
        return {}, {}
    try:
        cases = factory()
    except MemoryError:
        raise
    except BaseException as error:
        raise raised("load.case", "get_cases()", error, path) from error
    shape = "get_cases() must return {case name: {CONSTANT: value}}"
    if not isinstance(cases, dict) or not all(isinstance(value, dict) for value in cases.values()):
        raise LoadError("load.case", shape)
    found = {str(name): dict(constants) for name, constants in cases.items()}
    weights = _weights(module, found)
    for name, constants in found.items():
        for constant in constants:
            if not isinstance(constant, str) or not hasattr(module, constant):
                raise LoadError("load.case", f"case {name!r} sets {constant!r}, which the module does not define")
    return found, weights


def _weights(module: ModuleType, cases: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Weights of the cases, which lose that entry."""
    try:
        weights = {name: weight for name, constants in cases.items() if (weight := weight_of(name, constants))}
        check_number(weights)
    except ValueError as error:
        raise LoadError("load.case", str(error)) from error
    if weights and hasattr(module, WEIGHT):
        text = f"{WEIGHT!r} is how a case says its weight: give the module's own {WEIGHT!r} another name"
        raise LoadError("load.case", text)
    for constants in cases.values():
        constants.pop(WEIGHT, None)
    return weights


def load_candidate(source: str, folder: Path | str) -> type:
    """Import a candidate and return its class `ModelNew`. Raises LoadError."""
    module = write_module(source, folder, CANDIDATE)
    model = getattr(module, "ModelNew", None)
    if not isinstance(model, type):
        raise LoadError("source.no_model", "the candidate must define a class `ModelNew` at its top level")
    return model
