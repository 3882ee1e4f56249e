"""Words that several messages need. Standard library only."""

from __future__ import annotations


def counted(count: int, noun: str, more: str = "s") -> str:
    """ "1 kernel", "2 kernels"; `more` is what the noun takes where there is not just one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{more}"
