"""The one-page map stays true: every path it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = [  # ADRs name the paths of their day
    "ARCHITECTURE.md",
    "README.md",
    "CONTRIBUTING.md",
    *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md")),
]
APPS = ("adaexplore_site", "judge", "memory", "search")
PARTS = ("management", "migrations", "templatetags")  # where Django looks for them
PATHS = re.compile(r"`((?:adaexplore_site|search|judge|memory|templates|static|tests|docs)/[\w./-]*)`")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_a_document_names_exists(document: str) -> None:
    named = PATHS.findall((ROOT / document).read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_map_names_every_app() -> None:
    named = set(PATHS.findall((ROOT / "ARCHITECTURE.md").read_text()))
    assert {"adaexplore_site/", "search/", "memory/", "judge/", "judge/bench/"} <= named


def test_the_map_names_every_room() -> None:
    rows = re.findall(r"^\| (?:`(\w+)/`)? ?\| (`.*?`) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.M)
    named, app = set(), ""
    for found, rooms in rows:
        app = found or app
        named |= {f"{app}/{room}" for room in re.findall(r"`(\w+)`", rooms)}
    rooms = {
        f"{place.parent.parent.name}/{place.parent.name}" for app in APPS for place in ROOT.glob(f"{app}/*/__init__.py")
    }
    assert rooms - {f"{app}/{part}" for app in APPS for part in PARTS} == named


def test_the_top_floor_of_an_app_holds_no_loose_module() -> None:
    allowed = {"__init__", "apps", "urls", "tasks", "models", "admin"}
    for app in APPS:
        loose = {path.stem for path in (ROOT / app).glob("*.py")} - allowed
        assert loose <= ({"asgi", "celery", "settings"} if app == "adaexplore_site" else set()), app


def test_the_glossary_is_short_and_sorted() -> None:
    rows = (ROOT / "ARCHITECTURE.md").read_text().partition("## Glossary")[2]
    terms = re.findall(r"^\| (?!term|---)(.+?) \|", rows, re.M)
    assert terms == sorted(terms) and 20 < len(terms) <= 40


def test_nothing_but_the_agreed_stands_at_the_top() -> None:
    agreed = {"manage.py", "pyproject.toml", "Makefile", "docs", "LICENSE", "tests", "static", "templates"}
    rooms = {"adaexplore_site", "search", "judge", "memory"}
    found = {p.name for p in ROOT.iterdir() if not p.name.startswith((".", "__"))}
    assert {name for name in found - agreed - rooms if not name.endswith((".md", ".lock"))} <= {"screenshots"}
