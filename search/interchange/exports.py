"""Downloads of a kernel or of proofs, each with its provenance."""

from __future__ import annotations

import ast
import dataclasses
import io
import json
import re
import tomllib
import zipfile
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from django.db.models import QuerySet
from django.template import Context, Engine

from adaexplore_site.core.text import storable
from judge.devices.models import Device
from judge.evaluations.beside import beats_torch
from judge.evaluations.cases import case_measurements, cases_of
from judge.evaluations.measures import BESIDE, Measure
from judge.evaluations.models import Evaluation, Measurement, Samples
from judge.problems.models import Problem, flag_codes
from judge.values import GRADIENTS, PRECISIONS, Basis, Policy, Verdict, canonical_hash
from judge.values.parsing import parse_module
from memory.prompting.queries import uses_at
from search.interchange.own import memory_document
from search.records.facts import NodeRow
from search.records.log import params_in_force
from search.records.models import Node, Run
from search.records.queries import RunTree, run_tree

PRODUCT = "AdaExplore Dashboard"
PUBLISHED = "figures of that source, not measured by this product"
WIDTH = 300


@cache
def product_version() -> str:
    """The installed version, else the one of the source tree."""
    try:
        return metadata.version("adaexplore-dashboard")
    except metadata.PackageNotFoundError:
        project = Path(__file__).resolve().parents[2] / "pyproject.toml"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])


def headline(node: Node) -> str:
    """Verdict and speedup in one line: never a bare number, and a failure says FAILED first."""
    evaluation = node.evaluation
    if evaluation is None:
        return f"FAILED: {node.reason}" if node.reason else "NOT JUDGED YET"
    if evaluation.verdict != Verdict.PASS.value:
        return f"FAILED: {evaluation.verdict}" + (f" ({evaluation.reason})" if evaluation.reason else "")
    measure = Measure.of(evaluation)
    verdict = "pass as reported, not judged here" if evaluation.device.imported else "pass"
    if measure is None:
        return f"{verdict}, not timed"
    return f"{verdict}, {measure.whole}" + ("" if beats_torch(evaluation) else "; not faster than PyTorch")


def problem_flag(problem: Problem) -> list[tuple[str, str]]:
    """The flag of a degenerate problem with what it was flagged for; empty for others."""
    if problem.state != Problem.State.DEGENERATE:
        return []
    codes = ", ".join(flag_codes(problem)) or "for no stored reason"
    return [("problem flag", f"DEGENERATE ({codes}): a kernel can win without doing the work")]


def facts(node: Node) -> list[tuple[str, str]]:
    """(name, value) in reading order, unescaped."""
    run, evaluation = node.run, node.evaluation
    rows = [
        ("problem", run.problem.slug),
        ("problem title", run.problem.title),
        ("problem sha256", run.problem.source_hash),
        *problem_flag(run.problem),
        ("numerics", PRECISIONS[run.problem.numerics]),
        ("gradients", GRADIENTS[run.problem.gradients]),
        ("candidate hash", node.source_hash or canonical_hash(node.source)),
        ("verdict", headline(node)),
    ]
    if evaluation is not None:
        rows += _evaluation_facts(evaluation)
    elif node.message:
        rows.append(("message", node.message))
    rows += [
        ("run", f"{run.pk}, proposer {run.proposer}, seed {run.seed}"),
        ("node", f"{node.number}, {node.kind} step" + (f" on node {node.parent.number}" if node.parent else "")),
        *([("branched from", _origin(run.branched_from))] if run.branched_from else []),
        *([("hand", "a person had a hand in it: see the search's activity")] if node.touched else []),
        ("imported" if run.imported else "found", (node.told_at or node.created_at).isoformat(timespec="seconds")),
    ]
    if run.imported:
        rows.append(("imported from", str(run.imported.get("file", ""))))
        rows.append((f"published as ({PUBLISHED})", str(run.imported.get("label", ""))))
    return [*rows, ("made by", f"{PRODUCT} {product_version()}")]


def _origin(node: Node) -> str:
    return f"node {node.number} of run {node.run_id}"


def _evaluation_facts(evaluation: Evaluation) -> list[tuple[str, str]]:
    device = evaluation.device
    rows = [("message", evaluation.message)] if evaluation.message else []
    rows += [("case", row.in_words) for row in weighted.rows] if (weighted := cases_of(evaluation)) else []
    return [
        *rows,
        ("device", f"{device.title} ({device.name}, {device.arch or 'architecture unknown'})"),
        ("toolchain", evaluation.toolchain or "unknown"),
        ("protocol", evaluation.protocol),
        ("judged", evaluation.created_at.isoformat(timespec="seconds")),
    ]


def header(node: Node) -> str:
    """A block of comments for the top of the kernel file.

    The first line declares the encoding, so that no later comment can be taken for such a declaration.
    """
    found = f"recorded elsewhere, imported by {PRODUCT}" if node.run.imported else f"found by {PRODUCT}"
    lines = ["# -*- coding: utf-8 -*-", f"# Kernel {found}. Provenance:"]
    lines += [f"#   {name}: {escaped(value)}" for name, value in facts(node)]
    return "\n".join([*lines, "", ""])


def escaped(text: str) -> str:
    """`text` on one line: line ends, control, direction-changing and unpaired characters are written as escapes."""
    short = text if len(text) <= WIDTH else text[:WIDTH] + "…"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in short)


FOLDER = Path(__file__).resolve().parents[2] / "templates" / "exports"
FORMAT = "adaexplore-proof/1"


class NothingToExport(ValueError):
    """The node has no kernel; the message says why."""


def kernel_file(node: Node) -> tuple[str, bytes]:
    """(file name, bytes) of one module: header, source to the letter, and a self-check for `python FILE`.

    Raises NothingToExport. A failed kernel is exported too; its header says FAILED.
    """
    tail = _template("selfcheck.py.txt") if _parses(node.source) else ""
    return f"{_stem(node)}.py", _bytes(_module(node) + tail)


def proof_zip(node: Node) -> tuple[str, bytes]:
    """(file name, bytes) of an archive with kernel, reference, verdict, calls and a stand-alone repro.py.

    Raises NothingToExport.
    """
    calls = _calls(node)
    files = {
        "README.txt": _readme(node, list(calls)),
        "kernel.py": _module(node),
        "reference.py": node.run.problem.source,
        "repro.py": _template("repro.py.txt"),
        "verdict.json": json.dumps(storable(verdict_document(node)), indent=1, ensure_ascii=False) + "\n",
        **calls,
    }
    return f"{_stem(node)}-proof.zip", zipped(files)


def verdict_document(node: Node) -> dict[str, Any]:
    """Everything behind the verdict as JSON values: report, raw samples, environment, origin."""
    run, evaluation = node.run, node.evaluation
    return {
        "format": FORMAT,
        "product": f"{PRODUCT} {product_version()}",
        "headline": headline(node),
        "problem": {
            **{key: getattr(run.problem, key) for key in ("slug", "title", "source_hash", "origin", "state")},
            "flags": flag_codes(run.problem),
            "policy": dataclasses.asdict(Policy.from_json(run.problem.policy)),
        },
        "run": {
            **{key: getattr(run, key) for key in ("id", "proposer", "seed", "steps", "params", "origin")},
            "imported": {**run.imported, "figures": PUBLISHED} if run.imported else {},
            "model": run.proposer_options.get("model"),
        },
        "node": {
            **{key: getattr(node, key) for key in ("number", "kind", "context", "source_hash", "summary", "reason")},
            "message": node.message,
            "parent": node.parent.number if node.parent else None,
            "reused": node.reused,
            "rules": [{"text": use.text, "arm": use.arm} for use in uses_at(node.pk, run.pk, node.number)],
            "told_at": node.told_at.isoformat() if node.told_at else None,
        },
        "evaluation": None if evaluation is None else _evaluation(node),
        "measurements": [] if evaluation is None else [_measurement(row) for row in _measurements(node)],
        "case_measurements": [
            {"case": row.case, **_measurement(row)} for row in (case_measurements(evaluation) if evaluation else ())
        ],
    }


def _evaluation(node: Node) -> dict[str, Any]:
    evaluation = node.evaluation
    assert evaluation is not None
    device = evaluation.device
    names = ("verdict", "stage", "reason", "message", "protocol", "toolchain", "candidate_hash", "wall_ms", "report")
    speedup = ("speedup", "speedup_low", "speedup_high", "speedup_n", "basis", "fastest", *BESIDE)
    return {
        **{key: getattr(evaluation, key) for key in (*names, *speedup)},
        "device": {key: getattr(device, key) for key in ("name", "kind", "title", "arch")},
        "judged_at": evaluation.created_at.isoformat(),
    }


def _measurements(node: Node) -> list[Measurement]:
    return list(Measurement.objects.filter(evaluation=node.evaluation).order_by("subject"))


def _measurement(row: Samples) -> dict[str, Any]:
    names = ("subject", "basis", "method", "n", "median_us", "low_us", "high_us", "samples_us", "detail")
    return {key: getattr(row, key) for key in names}


def _calls(node: Node) -> dict[str, str]:
    """Prompt and reply of each call that has them, as text files."""
    files = {}
    for call in node.proposals.order_by("attempt"):
        for kind in ("prompt", "reply", "error"):
            text = getattr(call, kind)
            if text:
                files[f"{kind}-{call.attempt}.txt"] = text
    return files


def _module(node: Node) -> str:
    if not node.source.strip():
        why = node.message or ("it has no reply yet" if not node.reason else node.reason)
        raise NothingToExport(f"Node {node.number} has no kernel to download: {why}")
    return header(node) + node.source.removeprefix("\ufeff") + ("" if node.source.endswith("\n") else "\n")


def _readme(node: Node, calls: list[str]) -> str:
    title = escaped(f"{PRODUCT}: {node.run.problem.title}, run {node.run.pk}, node {node.number}")
    basis = node.evaluation.basis if node.evaluation else ""
    imported = node.run.origin == Run.Origin.IMPORT
    about = "as the source published it" if imported else "what was exchanged with the proposer"
    values = {
        "title": title,
        "underline": "=" * len(title),
        "headline": escaped(headline(node)),
        "problem_hash": node.run.problem.source_hash,
        "numerics": PRECISIONS[node.run.problem.numerics],
        "gradients": GRADIENTS[node.run.problem.gradients],
        "calls": [f"{name:<15}{about}" for name in calls],
        "modelled": basis == Basis.MODELLED.value,
        "imported": imported,
        "flags": [escaped(text) for _, text in problem_flag(node.run.problem)],
        "cases": _cases_said(node),
    }
    template = Engine(autoescape=False).from_string(_template("README.txt"))
    return template.render(Context(values, autoescape=False))


def _cases_said(node: Node) -> list[str]:
    """One line for each case of a problem with weights, and what the speedup is of."""
    found = cases_of(node.evaluation) if node.evaluation else None
    if found is None:
        return []
    what = f"the weighted geometric mean over {found.mean_of} cases" if found.mean_of else "of the first case below"
    said = [f"The speedup is {what}; other baselines were timed in the first."] if found.timed else []
    return said + [f"  {escaped(row.in_words)}" for row in found.rows]


def kernel_stem(node: Node, problem: Problem) -> str:
    """The name of a kernel's file without its suffix: also the name of the module to import."""
    slug = re.sub(r"[^a-z0-9]+", "_", problem.slug.lower()).strip("_")[:60] or "problem"
    return f"kernel_{slug}_run{node.run_id}_node{node.number}"


def _stem(node: Node) -> str:
    return kernel_stem(node, node.run.problem)


def _parses(source: str) -> bool:
    """Whether code may be appended: an open string or bracket would swallow it."""
    try:
        parse_module(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


@cache
def _template(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def zipped(files: dict[str, str]) -> bytes:
    """Fixed dates, order and rights: the same files give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, whatever this runs on
            info.external_attr = 0o644 << 16
            archive.writestr(info, _bytes(files[name]))
    return buffer.getvalue()


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


OF_NODE: dict[str, Callable[[Node], tuple[str, bytes]]] = {
    "solution": solution_file,  # for flashinfer-bench
    "kernel": kernel_file,
    "proof": proof_zip,
}


def nodes_to_export() -> QuerySet[Node]:
    """Nodes with what their files tell of them."""
    return Node.objects.select_related("run__problem", "run__device", "run__owner", "evaluation__device", "parent")


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
    if device.is_gpu:
        return _name(device.title, upper=True)
    return device.arch or _name(device.name.removeprefix("external:"), upper=True) or "unknown"


def _name(text: str, *, upper: bool = False) -> str:
    clean = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return clean if upper else clean.lower()


def run_document(run: Run, *, toolchain: str, wall_s: float, command: str) -> dict[str, Any]:
    """`run`, `best` (None where nothing beat PyTorch; then `closest` is the kernel next to it, None without an audited
    one) and `nodes`: every completed node in number order, the root left out.

    A speedup never comes without its basis and, unless it is a reported one, its interval.
    """
    tree = run_tree(run)
    completed = [node for node in tree.nodes if node.state == Node.State.COMPLETED and node.parent is not None]
    return {
        "run": {
            "id": run.pk,
            "problem": run.problem.slug,
            "problem_hash": run.problem.source_hash,
            "problem_state": run.problem.state,
            "problem_flags": flag_codes(run.problem),
            "device": run.device.name,
            "device_title": run.device.title,
            "toolchain": toolchain,
            "proposer": run.proposer,
            "seed": run.seed,
            "params": run.params,
            "params_at_end": params_in_force(run).to_json(),
            "steps": run.steps,
            "limits": run.limits,
            "memory": memory_document(run),
            "told": len(completed),
            "state": run.state,
            "stop_reason": run.stop_reason,
            "wall_s": round(wall_s, 3),
            "command": command,
        },
        "best": _timed(run, tree, tree.standing.best),
        "closest": _timed(run, tree, tree.standing.closest),
        "nodes": [_node(node) for node in completed],
    }


def _timed(run: Run, tree: RunTree, number: int | None) -> dict[str, Any] | None:
    """A node with the times behind its speedup, those of the baselines included."""
    node = None if number is None else tree.get(number)
    if node is None:
        return None
    rows = Measurement.objects.filter(evaluation__nodes__run=run, evaluation__nodes__number=node.number)
    times = {row.subject: _times(row) for row in rows.order_by("subject")}
    return {**_node(node), "n": node.n, "times_us": times}


def _times(row: Measurement) -> dict[str, Any]:
    return {"median": row.median_us, "interval": [row.low_us, row.high_us], "n": row.n, "method": row.method}


def _node(node: NodeRow) -> dict[str, Any]:
    return {
        "number": node.number,
        "parent": node.parent,
        "kind": node.kind,
        "source_hash": node.source_hash,
        "verdict": node.verdict,
        "reason": node.reason,
        "speedup": node.speedup,
        "interval": None if node.low is None else [node.low, node.high],
        "basis": node.basis or "",
        "fastest": node.fastest or "",
        **{name: getattr(node, name) for name in BESIDE},
        "reused": node.reused,
        "summary": node.summary,
        "by_hand": node.touched,
    }
