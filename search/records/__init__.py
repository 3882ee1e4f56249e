"""Rows of a search: runs, nodes, proposals, the event log, and how they are read."""
