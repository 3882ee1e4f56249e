"""Runs in child processes: torch and triton, no Django."""
