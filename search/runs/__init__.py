"""Searches: start, pause, resume, stop, archive, remove; the list and the form."""
