"""The site's settings with a built-in proposer that makes the mistakes of language models in every search."""

from __future__ import annotations

from adaexplore_site.settings import *  # noqa: F403

SEARCH_PROPOSERS = {"builtin": "tests.mistaken.MistakenProposer"}
