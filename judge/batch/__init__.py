"""Judging by file: jobs are exported, judged without a network, and imported as signed outcomes."""
