"""A node as a flashinfer-bench solution: one JSON object, its sources inside.

Schema: github flashinfer-ai/flashinfer-bench, `Solution` and `BuildSpec` of its trace format.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from adaexplore_site.core.text import storable
from judge.devices.models import Device
from judge.values.parsing import parse_module
from search.interchange.exports import NothingToExport
from search.interchange.provenance import PRODUCT, headline, product_version
from search.records.models import Node

ENTRY = "main.py"
_MAIN = '''"""Calls the kernel as flashinfer-bench does: inputs by name, outputs returned."""

import importlib.util
from pathlib import Path

import torch


def _load(name):
    spec = importlib.util.spec_from_file_location(f"_adaexplore_{{name}}", Path(__file__).with_name(f"{{name}}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_models = {{}}


def _model(device):
    """The module with the parameters that seed 0 gives, once per device."""
    if device not in _models:
        torch.manual_seed(0)
        _models[device] = _load("kernel").ModelNew(*_load("reference").get_init_inputs()).to(device).eval()
    return _models[device]


def run({names}):
    given = {given}
    device = next((value.device for value in given if isinstance(value, torch.Tensor)), torch.device("cpu"))
    with torch.no_grad():
        return _model(device)(*given)
'''


def solution(node: Node) -> dict[str, Any]:
    """The solution of a correct kernel; its definition is called like the problem. Raises NothingToExport."""
    if node.evaluation is None or node.evaluation.verdict != "pass":
        raise NothingToExport(f"Node {node.number} is not correct: a solution has to be. Download its .py instead.")
    run, names = node.run, _inputs(node.run.problem.source)
    given = f"({''.join(f'{one}, ' for one in names).strip()})" if names else "(*inputs, *named.values())"
    name = _name(f"{run.problem.slug}_run{run.pk}_node{node.number}")
    main = _MAIN.format(names=", ".join(names) or "*inputs, **named", given=given)
    files = {ENTRY: main, "kernel.py": node.source, "reference.py": run.problem.source}
    return {
        "name": name,
        "definition": _name(run.problem.slug),
        "author": run.proposer_options.get("model") or f"{PRODUCT} {run.proposer}",
        "description": _description(node),
        "spec": {
            "language": "triton" if "triton" in node.source else "python",
            "target_hardware": [_hardware(run.device)],
            "dependencies": ["torch", "triton"],
            "entry_point": f"{ENTRY}::run",
            "destination_passing_style": False,
        },
        "sources": [{"path": path, "content": content} for path, content in files.items()],
    }


def solution_file(node: Node) -> tuple[str, bytes]:
    """(file name, bytes). Raises NothingToExport."""
    found = solution(node)
    return f"{found['name']}.json", (json.dumps(storable(found), indent=1, ensure_ascii=False) + "\n").encode()


def _description(node: Node) -> str:
    return (
        f"{headline(node)}. Found by {PRODUCT} {product_version()}, run {node.run_id}, node {node.number}; "
        f"problem sha256 {node.run.problem.source_hash}. Parameters, where the module has any, are made inside from "
        "seed 0: they are no inputs. The definition's inputs must be named like the arguments of forward()."
    )


def _inputs(source: str) -> list[str]:
    """Names of the arguments of the reference's forward; empty where it does not name them."""
    try:
        tree = parse_module(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    models = (item for item in ast.walk(tree) if isinstance(item, ast.ClassDef) and item.name == "Model")
    for model in models:
        for item in model.body:
            if isinstance(item, ast.FunctionDef) and item.name == "forward" and not item.args.vararg:
                return [one.arg for one in (*item.args.posonlyargs, *item.args.args)][1:]
    return []


def _hardware(device: Device) -> str:
    if device.kind == Device.Kind.CUDA:
        return _name(device.title, upper=True)
    return device.arch or _name(device.name.removeprefix("external:"), upper=True) or "unknown"


def _name(text: str, *, upper: bool = False) -> str:
    clean = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return clean if upper else clean.lower()
