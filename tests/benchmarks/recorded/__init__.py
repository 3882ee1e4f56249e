"""Kernels of published searches under this judge: which of them, what came of each, and what the publisher said."""
