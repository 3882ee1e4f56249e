"""Steering a search: pin, prune, boost, force, note, inject, branch, change parameters."""
