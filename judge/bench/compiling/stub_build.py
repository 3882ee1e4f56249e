"""Builds Triton's host modules ahead: the driver's utilities, and launchers where each signature has its own.

They are C, compiled by the machine's compiler in most of a second, and the same for every candidate; so a child that
never sees a candidate builds them once, from types alone. Launchers have been generic since Triton 3.7.
"""

from __future__ import annotations

import importlib
from typing import Any

from judge.bench.exchange import seal
from judge.bench.exchange.fields import BadClaim
from judge.bench.exchange.rows import LauncherRow
from judge.bench.processes.child import Assignment


def run(assignment: Assignment) -> None:
    """Role "stubs": build what the payload names into this child's Triton cache folder; say what came of it."""
    payload = assignment.payload
    body = build(payload["launchers"])
    assignment.boss.send({"verdict": body, "mac": seal.sign(body, key=payload["key"], nonce=payload["nonce"])})


def build(launchers: list[dict[str, Any]]) -> dict[str, Any]:
    """{"generic": one launcher serves all, "built": places in `launchers`, "failed": why nothing could be}."""
    nvidia = importlib.import_module("triton.backends.nvidia.driver")
    generic = not hasattr(nvidia, "make_launcher")
    try:
        nvidia.CudaUtils()
        built = [] if generic else [number for number, row in enumerate(launchers) if _build_launcher(nvidia, row)]
    except Exception as error:  # noqa: BLE001 - no compiler, no driver: children build what they need themselves
        return {"generic": generic, "built": [], "failed": f"{type(error).__name__}: {error}"[:400]}
    return {"generic": generic, "built": built, "failed": ""}


def _build_launcher(nvidia: Any, row: dict[str, Any]) -> bool:
    """Whether the row was a signature; what a candidate's process claims goes into C only as known types."""
    try:
        types = LauncherRow.read(row).signature
    except BadClaim:
        return False
    descriptors = sum(isinstance(item, str) and item.startswith("tensordesc") for item in types)
    meta: list[dict[str, Any]] | None = [{}] * descriptors if row.get("descriptors") else None
    source = nvidia.make_launcher({}, dict(enumerate(types)), meta)
    nvidia.compile_module_from_src(
        src=source,
        name="__triton_launcher",
        library_dirs=nvidia.library_dirs(),
        include_dirs=nvidia.include_dirs,
        libraries=nvidia.libraries,
    )
    return True
