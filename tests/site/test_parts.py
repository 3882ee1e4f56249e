"""The parts of `python -m tests.run`: each test is in one of them, once on each database that it is for."""

from __future__ import annotations

import itertools
from pathlib import PurePath

import pytest

from tests import migrated
from tests.run import ALONE, LANES, PAGES, PARTS, ROAD

MARKS = ("django_db", "bench", "slow", "browser", "quiet")
PLACES = ("tests/site/test_x.py", f"{PAGES}/test_x.py", ROAD)


def takes(arguments: list[str], place: str, marks: set[str]) -> bool:
    """Whether pytest runs a test of this file and with these marks when it is called so."""
    given = {
        name: arguments[at + 1] for at, name in enumerate(arguments) if name in ("--ignore", "-m", "-n", "-p", "--dist")
    }
    paths = [one for one in arguments if one.partition("/")[0] == "tests" and one not in given.values()]
    ignored = given.get("--ignore", "nowhere")
    found = any(PurePath(place).is_relative_to(one) for one in paths) and not PurePath(place).is_relative_to(ignored)
    return found and bool(eval(given.get("-m", "True"), {mark: mark in marks for mark in MARKS}))


@pytest.mark.parametrize("place", PLACES)
def test_every_test_is_in_one_part_beside_postgresql(place):
    for chosen in itertools.product((False, True), repeat=len(MARKS)):
        marks = {mark for mark, wanted in zip(MARKS, chosen, strict=True) if wanted}
        if place == PLACES[0] or "quiet" not in marks:
            parts = [part for part in PARTS if part != "PostgreSQL" and takes(PARTS[part], place, marks)]
            assert len(parts) == 1, (marks, parts)
            assert (parts == [ALONE]) is ("quiet" in marks)


def test_every_part_is_run_and_one_is_alone():
    assert sorted([*itertools.chain(*LANES), ALONE]) == sorted(PARTS)
    assert PARTS[ALONE][PARTS[ALONE].index("-n") + 1] == "0"


def test_a_database_is_made_anew_for_another_migration(tmp_path, monkeypatch):
    monkeypatch.setattr(migrated, "ROOT", tmp_path)
    digests = set()
    for text in ("", "a = 1", "a = 2"):
        (tmp_path / "search" / "migrations").mkdir(parents=True, exist_ok=True)
        (tmp_path / "search" / "migrations" / "0001_initial.py").write_text(text)
        digests.add(migrated.source_digest())
    assert len(digests) == 3
