"""Rows of memory. Nodes and searches belong to `search`, which imports this room: here they are only named."""

from __future__ import annotations

from memory.adapt_models import AdaptRun, AdaptTask
from memory.failure_models import Failure, FailureCluster
from memory.rule_models import Rule, RuleVersion, Sighting
from memory.use_models import FrozenRule, RuleUse, RunMemory

__all__ = [
    "AdaptRun",
    "AdaptTask",
    "Failure",
    "FailureCluster",
    "FrozenRule",
    "Rule",
    "RuleUse",
    "RuleVersion",
    "RunMemory",
    "Sighting",
]
