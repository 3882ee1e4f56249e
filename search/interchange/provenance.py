"""The provenance of a kernel as lines of text. Whatever the rows hold, each fact stays on its own comment line."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

from judge.devices.models import Device
from judge.evaluations.measures import Measure
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem, flag_codes
from judge.values import Verdict, canonical_hash
from search.records.facts import beats_torch
from search.records.models import Node

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
    verdict = "pass" if evaluation.device.kind != Device.Kind.EXTERNAL else "pass as reported, not judged here"
    if measure is None:
        return f"{verdict}, not timed"
    return f"{verdict}, {measure} over eager" + ("" if beats_torch(evaluation) else "; not faster than PyTorch")


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
