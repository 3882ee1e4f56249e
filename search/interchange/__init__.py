"""Formats of other programs, read and written: AdaExplore's run folder and packed JSON, flashinfer-bench solutions."""
