"""A database with every migration, made once for a state of the source; each process that tests begins with a copy.

SQLite: a file below .pytest_cache, which later runs use, too, or the one that `tests/mutants.py` names in MIGRATED.
PostgreSQL: a template, where `tests/run.py` names one there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import django
import psycopg
import pytest
from django.conf import settings

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".pytest_cache" / "migrated"
APPS = ("adaexplore_site", "judge", "memory", "search")


def source_digest() -> str:
    """Of all that decides what is in a migrated database: migrations, and whatever they and their signals call."""
    found = hashlib.sha256(f"{django.VERSION} {sqlite3.sqlite_version}".encode())
    for app in APPS:
        for path in sorted((ROOT / app).rglob("*.py")):
            found.update(f"{path.relative_to(ROOT)} ".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def migrate(data: str, database_url: str = "") -> None:
    """Bring a database to the newest state: the one at the address, else db.sqlite3 in the folder `data`."""
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    env |= {"ADAEXPLORE_DATA": data, "DATABASE_URL": database_url}
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=ROOT, env=env, check=True)


def migrated_copy(place: Path) -> None:
    """Copy the SQLite file for the source as it is to `place`. Whoever asks first makes it; others wait."""
    if given := os.environ.get("MIGRATED"):
        shutil.copyfile(given, place)
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / f"{source_digest()}.sqlite3"
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            for old in FOLDER.glob("*.sqlite3"):
                old.unlink()
            with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
                migrate(folder)
                with contextlib.closing(sqlite3.connect(Path(folder, "db.sqlite3"))) as rows:
                    rows.execute("VACUUM INTO ?", [f"{folder}/whole"])  # one file, without the log beside it
                Path(folder, "whole").rename(target)
        shutil.copyfile(target, place)


def template(server_url: str) -> str:
    """The name of a new, migrated database of a PostgreSQL server, for its test databases to begin with."""
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute("CREATE DATABASE migrated")
    with tempfile.TemporaryDirectory() as folder:
        migrate(folder, f"{server_url.rpartition('/')[0]}/migrated")
    return "migrated"


@pytest.fixture(scope="session")
def django_db_keepdb(request: pytest.FixtureRequest, django_db_modify_db_settings: None) -> Iterator[bool]:
    """In place of the fixture of pytest-django, with which every process migrates an empty database."""
    database = settings.DATABASES["default"]
    if "sqlite3" not in database["ENGINE"]:
        if name := os.environ.get("MIGRATED"):
            database["TEST"]["TEMPLATE"] = name
        yield request.config.getvalue("reuse_db")
        return
    place = Path(database["TEST"]["NAME"])
    migrated_copy(place)
    yield True
    for path in place.parent.glob(f"{place.name}*"):
        path.unlink()
