"""Keeps results of the policy laboratory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adaexplore_site.core.text import clip
from search.lab.models import LabResult


def lab_result_record(*, document: Mapping[str, Any], command: str) -> LabResult:
    """Store one result whole, with the command that repeats it."""
    return LabResult.objects.create(
        command=clip(command, 2000),
        protocol=document["protocol"],
        partial=document["partial"],
        seconds=document["seconds"],
        result=dict(document),
    )
