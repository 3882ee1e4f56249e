"""What a person takes home: the kernel as one file, or an archive that proves it. The same rows give the same bytes."""

from __future__ import annotations

import io
import json
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from django.template import Context, Engine

from adaexplore_site.core.text import storable
from judge.evaluations.models import Measurement
from judge.problems.models import Problem, flag_codes
from judge.values import Basis
from judge.values.parsing import parse_module
from memory.prompting.queries import uses_at
from search.interchange.provenance import PRODUCT, PUBLISHED, escaped, header, headline, problem_flag, product_version
from search.records.models import Node, Run

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
    }


def _evaluation(node: Node) -> dict[str, Any]:
    evaluation = node.evaluation
    assert evaluation is not None
    device = evaluation.device
    names = ("verdict", "stage", "reason", "message", "protocol", "toolchain", "candidate_hash", "wall_ms", "report")
    speedup = ("speedup", "speedup_low", "speedup_high", "speedup_n", "basis")
    return {
        **{key: getattr(evaluation, key) for key in (*names, *speedup)},
        "device": {key: getattr(device, key) for key in ("name", "kind", "title", "arch")},
        "judged_at": evaluation.created_at.isoformat(),
    }


def _measurements(node: Node) -> list[Measurement]:
    return list(Measurement.objects.filter(evaluation=node.evaluation).order_by("subject"))


def _measurement(row: Measurement) -> dict[str, Any]:
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
        "calls": [f"{name:<15}{about}" for name in calls],
        "modelled": basis == Basis.MODELLED.value,
        "imported": imported,
        "flags": [escaped(text) for _, text in problem_flag(node.run.problem)],
    }
    template = Engine(autoescape=False).from_string(_template("README.txt"))
    return template.render(Context(values, autoescape=False))


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
