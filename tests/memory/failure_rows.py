"""Failures for tests: a told node with a verdict and the row that memory keeps of it."""

from __future__ import annotations

from django.utils import timezone

from memory.distil.distillers import Facts
from memory.failures.models import Failure, FailureCluster
from search.engine.completion import failures_keep
from search.records.facts import fingerprint_of
from search.records.models import Node, Run
from tests.search.live_rows import grow

DTYPE = "TypeError: 'dtype' object is not callable"
UNKNOWN = "RuntimeError: the frobnicator is upside down"


def told(
    run: Run, message: str, *, verdict: str = "crashed", stage: str = "smoke", reason: str = "run.exception"
) -> Node:
    """A failed node that memory does not know of yet."""
    node = grow(run, speedup=None)
    evaluation = node.evaluation
    assert evaluation is not None
    evaluation.verdict, evaluation.stage, evaluation.reason, evaluation.message = verdict, stage, reason, message
    evaluation.toolchain = "torch 2.13.0 triton 3.7.1 sm_90"
    evaluation.save()
    node.source = "class ModelNew:\n    own_name = 1\n"
    node.fingerprint = fingerprint_of(evaluation, "", "")
    node.save()
    return node


def failed(run: Run, message: str = DTYPE, **changes: str) -> Failure:
    """A failed node as memory keeps it."""
    node = told(run, message, **changes)
    failures_keep(run=run, nodes=[node], now=timezone.now())
    return Failure.objects.get(node=node)


def cluster_of(run: Run, message: str = DTYPE, count: int = 1) -> FailureCluster:
    """The cluster of `count` new failures that say this."""
    return [failed(run, message) for _ in range(count)][-1].cluster


class Poor:
    """A library that has nothing at all."""

    def doubt(self, owner: str, name: str, facts: Facts) -> str:
        return ""
