"""Processes: the supervisor and the embedded server."""
