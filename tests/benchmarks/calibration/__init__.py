"""Calibrates the time model: traffic counted without a GPU, the same work timed on one, and how far apart they are."""
