"""Aggregates over a set of searches: the publication's definitions, medians, and the same with audited kernels only."""
