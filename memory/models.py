"""The rows of every room, where Django looks for them. Import each from its own room."""

from __future__ import annotations

from memory.adapt.models import AdaptRun, AdaptTask
from memory.failures.models import Failure, FailureCluster
from memory.prompting.models import FrozenRule, RuleUse, RunMemory
from memory.rules.models import Rule, RuleVersion, Sighting

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
