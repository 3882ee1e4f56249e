"""Shared fixtures."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache

from judge.bench.processes.forkserver import ForkServer
from judge.bench.runner import Bench
from tests.databases import commits, listed
from tests.migrated import django_db_keepdb  # noqa: F401

BOTH = set(listed())
ROWS = {"db", "transactional_db", "live_server"}  # fixtures of tests that own rows


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that asks for rows by a fixture counts as one with the mark: `-m django_db` is what a database decides."""
    for item in items:
        if ROWS & set(getattr(item, "fixturenames", ())) and item.get_closest_marker("django_db") is None:
            item.add_marker(pytest.mark.django_db(transaction="transactional_db" in getattr(item, "fixturenames", ())))
        if commits(item) and item.get_closest_marker("bench") is None and item.location[0] not in BOTH:
            raise pytest.UsageError(f"{item.location[0]} commits: list it in tests/postgresql.txt")
        of_both = item.get_closest_marker("django_db") is not None and item.get_closest_marker("bench") is None
        if item.get_closest_marker("quiet") and (of_both or item.location[0].startswith("tests/browser/")):
            raise pytest.UsageError(f"{item.nodeid} is marked quiet: that part has neither PostgreSQL nor a browser")


def pytest_collection_finish() -> None:
    """What is loaded by now stays to the end: walking all of it again and again took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """Folder of recorded searches and kernel spaces (`ADAEXPLORE_FIXTURES`); skips when it is not there."""
    folder = os.environ.get("ADAEXPLORE_FIXTURES", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("ADAEXPLORE_FIXTURES does not name the folder of recorded searches")
    return Path(folder)


@pytest.fixture
def kept_figures(settings: Any) -> Iterator[None]:
    """What the bar of every page shows is kept for some seconds, as in production: for walks through all pages."""
    in_memory = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    settings.CACHES = {**settings.CACHES, "default": in_memory}
    yield
    cache.clear()


# Benches shared by all tests of a worker: started once, because loading torch takes seconds.


@pytest.fixture(scope="session")
def cpu_bench() -> Iterator[Bench]:
    """Torch-only candidates on the CPU with a wall clock: the same road as CUDA."""
    with Bench("cpu", alternatives=False) as bench:
        yield bench


@pytest.fixture(scope="session")
def interpreter_bench() -> Iterator[Bench]:
    with Bench("interpreter") as bench:
        yield bench


@pytest.fixture(scope="session")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `compile_bench` keeps what it has compiled."""
    return tmp_path_factory.mktemp("artefacts")


@pytest.fixture(scope="session")
def compile_bench(artefacts: Path) -> Iterator[Bench]:
    """Compiles for sm_90 and runs nothing."""
    with Bench("compile:sm_90", artefacts=artefacts) as bench:
        yield bench


class Lent(contextlib.nullcontext[Bench]):
    """A bench as the command judge_compile takes it, which stays open for others."""

    @property
    def server(self) -> Callable[[str], ForkServer]:
        return self.enter_result.server


@pytest.fixture
def compiler_lent(compile_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command judge_compile borrows `compile_bench`."""
    benches = {compile_bench.device: Lent(compile_bench)}
    monkeypatch.setattr("judge.management.commands.judge_compile.Bench", benches.__getitem__)
