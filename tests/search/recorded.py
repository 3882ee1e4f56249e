"""Makes small recorded searches in the packed format."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from judge.values import canonical_hash
from search.interchange import imports

REFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.rand(8, 8)]


def get_init_inputs():
    return []
"""


def step(node_id: int, parent: int, *, kind: str = "large_step", fast_p: float = 1.5, **changes: Any) -> dict[str, Any]:
    """One step row; correct unless `fast_p` is 0."""
    row = {
        "node_id": node_id,
        "parent_node_id": parent,
        "created_by": kind,
        "context_node_ids": changes.pop("context", []),
        "score": {"compiled": True, "correct": fast_p > 0, "fast_p": fast_p},
        "runtime_us": 2.0,
        "baseline_time_us": 3.0,
        "hardware": "Test GPU",
        "error": None if fast_p else "incorrect output",
        "code": f"class ModelNew: pass  # {node_id}\nvalue = {node_id}\n",
        "prompt": f"prompt {node_id}",
    }
    return row | changes


def packed(steps: list[Any], **changes: Any) -> bytes:
    """A packed search around these steps, the root added."""
    root = {"node_id": 0, "parent_node_id": None, "created_by": "dummy_root", "score": {}, "code": "", "prompt": ""}
    document = {
        "label": "L2 / 7 (test)",
        "run_dir": "somewhere/2_7",
        "reference_src": REFERENCE,
        "steps": [root, *steps],
    }
    return json.dumps(document | changes).encode()


_once = functools.cache(canonical_hash)


@pytest.fixture
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash each kernel once: a recorded search that is imported again and again is hashed most of the time."""
    monkeypatch.setattr(imports, "canonical_hash", _once)
