"""Shared fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """Folder of recorded searches and kernel spaces (`ADAEXPLORE_FIXTURES`); skips when it is not there."""
    folder = os.environ.get("ADAEXPLORE_FIXTURES", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("ADAEXPLORE_FIXTURES does not name the folder of recorded searches")
    return Path(folder)
