"""Evaluations: verdicts, measurements, marks, races, their page."""
