"""Adapt runs: their rows, new modules composed of operators, and whether memory helped. Beside the rows it is pure."""
