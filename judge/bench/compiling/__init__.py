"""Kernels compiled ahead for a GPU that need not be there."""
