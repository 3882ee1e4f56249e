"""What PostgreSQL is asked: which tests run there, too, and whether they reach every query of the product.

tests/postgresql.txt lists files, and single tests of others, below tests/. Loaded as a pytest plugin with QUERIED set,
this writes into that folder which functions of the product queried, and the first test that led there, a file for
each process; `tests/run.py` compares both databases.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from django.db.backends.signals import connection_created

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("postgresql.txt")
APPS = tuple(f"{ROOT}/{app}/" for app in ("adaexplore_site", "judge", "memory", "search"))
OWN = f"{ROOT}/tests/"


def listed() -> list[str]:
    return [f"tests/{line}" for line in LIST.read_text().split("\n") if line]


def commits(item: pytest.Item) -> bool:
    """Whether a test asks about locks and what others see."""
    mark = item.get_closest_marker("django_db")
    return mark is not None and bool(mark.kwargs.get("transaction"))


class Queries:
    """The functions of the product that queried while `test` ran, each with the first test that led there."""

    def __init__(self) -> None:
        self.asking: dict[str, str] = {}
        self.test = ""
        self.places: dict[CodeType, str] = {}

    def watch(self, connection: Any, **_: Any) -> None:
        if self.asked not in connection.execute_wrappers:
            connection.execute_wrappers.append(self.asked)

    def asked(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if self.test and (place := self.place(sys._getframe(1))):
            self.asking.setdefault(place, self.test)
        return execute(sql, params, many, context)

    def place(self, frame: FrameType | None) -> str:
        """The innermost function of the product; empty where the test itself queries."""
        while frame is not None:
            if (place := self.places.get(frame.f_code)) is None:
                place = self.places[frame.f_code] = self.named(frame.f_code)
            if place:
                return "" if place.startswith("tests/") else place
            frame = frame.f_back
        return ""

    def named(self, code: CodeType) -> str:
        """Path and name; what a function defines inside counts as that function. Empty for code of others."""
        if not code.co_filename.startswith((*APPS, OWN)):
            return ""
        return f"{code.co_filename.removeprefix(f'{ROOT}/')} {code.co_qualname.partition('.<locals>')[0]}"


queries = Queries()


def pytest_configure() -> None:
    if "QUERIED" in os.environ:
        connection_created.connect(queries.watch, weak=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What chance or other processes lead to is asked of PostgreSQL by luck alone, so that it is not demanded."""
    chance = item.get_closest_marker("bench") or commits(item) or hasattr(getattr(item, "obj", None), "hypothesis")
    queries.test = "" if chance and not os.environ.get("DATABASE_URL") else item.nodeid
    return (yield)


def pytest_sessionfinish() -> None:
    if folder := os.environ.get("QUERIED"):
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        Path(folder, f"{name}.json").write_text(json.dumps(queries.asking))


def missing(asked: Path, there: Path) -> dict[str, str]:
    """The functions that queried in one part's folder and never in the other's, each with a test that leads there."""
    first, second = (
        {place: test for path in folder.glob("*.json") for place, test in json.loads(path.read_text()).items()}
        for folder in (asked, there)
    )
    return {place: first[place] for place in sorted(first.keys() - second.keys())}
