"""Tiled products with the element-wise tail in the epilogue."""

from __future__ import annotations

from search.proposers.builtin.fuse import Layout
from search.proposers.builtin.ir import Unsupported
from search.proposers.builtin.plans import Plan
from search.proposers.builtin.written import Written


def write_matmul(layout: Layout, at: int, plan: Plan, name: str, names: dict[str, str]) -> Written:
    raise Unsupported("matmul kernels")
