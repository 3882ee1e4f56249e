"""The site's settings with a proposer and a bench that cost next to nothing, so that thousands of steps pass."""

from __future__ import annotations

from adaexplore_site.settings import *  # noqa: F403

JUDGE_BENCH = "tests.faults.quick.QuickBench"
SEARCH_PROPOSERS = {"scripted": "tests.faults.quick.QuickProposer"}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
