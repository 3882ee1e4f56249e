"""The built-in proposer: writes Triton from the problem's traced graph. Needs no key, no network and no torch."""

from search.proposers.builtin.proposer import BuiltinProposer

__all__ = ["BuiltinProposer"]
