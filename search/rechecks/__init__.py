"""Kernels judged again on request, races, and marks on kernels."""
