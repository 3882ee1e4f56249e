"""Attention as one kernel with an online softmax."""

from __future__ import annotations

from search.proposers.builtin.fuse import Layout
from search.proposers.builtin.ir import Unsupported
from search.proposers.builtin.plans import Plan
from search.proposers.builtin.written import Written


def write_attention(layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> Written:
    raise Unsupported("attention kernels")
