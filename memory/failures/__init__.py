"""Failures, their clusters, and fingerprints."""
