"""Shared fixtures. Every test runs against a private data folder; nothing touches the developer's own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

# Before Django reads its settings.
if not os.environ.get("ADAEXPLORE_DATA"):
    os.environ["ADAEXPLORE_DATA"] = tempfile.mkdtemp(prefix="adaexplore-test-")
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """Folder of recorded searches and kernel spaces (`ADAEXPLORE_FIXTURES`); skips when it is not there."""
    folder = os.environ.get("ADAEXPLORE_FIXTURES", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("ADAEXPLORE_FIXTURES does not name the folder of recorded searches")
    return Path(folder)
