"""A data folder written by version 0.1.0, and a client of its API.

`0.1.0.sql.gz` is the database that version left: five finished searches, one that still runs, two campaigns, an adapt
run, rules, failures, a token and a saved view. `0.1.0.answers.json.gz` is what its API answered about them.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
READ = """
import json, sys
from django.contrib.auth.models import User
from django.test import Client
client = Client(HTTP_HOST="127.0.0.1")
client.force_login(User.objects.get(username="ada"))
def asked(one):
    if "get" in one:
        answer = client.get(one["get"])
    else:
        answer = client.post(one["post"], one["body"], content_type="application/json")
    return [answer.status_code, answer.json() if answer["Content-Type"].startswith("application/json") else None]
print(json.dumps([asked(one) for one in json.loads(sys.argv[1])]))
"""
PAGES = (
    "/", "/s/1/", "/s/6/", "/s/1/n/2/", "/kernels/", "/problems/", "/problems/row_softmax/", "/failures/", "/rules/",
    "/rules/1/", "/judge/", "/fleet/", "/lab/", "/adapt/", "/adapt/1/", "/campaigns/", "/campaigns/1/", "/campaigns/2/",
    "/spend/", "/activity/", "/settings/tokens/",
)  # fmt: skip

AGES = ("seen_s", "elapsed_s")  # counted from now
HASHES = ("candidate_hash", "source_hash")  # since 0.2.0 of the text that runs; a migration counts them anew
CHANGED = (
    "spend.items[0].best", "spend.items[4].best",  # since 0.2.0 a best is faster than PyTorch; these kernels are not
    "activity.items[4].what",  # since 0.2.0 a sentence does not repeat the object, which stands beside it
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The old data folder, migrated."""
    found = tmp_path_factory.mktemp("data")
    with sqlite3.connect(found / "db.sqlite3") as database:
        database.executescript(gzip.decompress((HERE / "0.1.0.sql.gz").read_bytes()).decode())
    _manage(found, "migrate", "--verbosity", "0")
    return found


def _manage(folder: Path, *words: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    env = {**kept, "ADAEXPLORE_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "adaexplore_site.settings"}
    done = subprocess.run(
        [sys.executable, "manage.py", *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def asked(folder: Path, *requests: dict[str, Any]) -> list[tuple[int, Any]]:
    """Status and JSON of each request, one after the other, as the old member."""
    script = f"import sys; sys.argv = ['', {json.dumps(json.dumps(requests))}]\n{READ}"
    return [tuple(one) for one in json.loads(_manage(folder, "shell", "--no-imports", "-c", script).splitlines()[-1])]


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """What a client of the old answer would miss in the new one: keys and values. More keys are no difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            yield from differences(value, new[name], f"{place}.{name}") if name in new else (f"{place}.{name} is gone",)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, now) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, now, f"{place}[{number}]")
    elif old != new:
        yield f"{place}: {old!r} became {new!r}"


def test_the_pages_of_an_old_folder_open(folder: Path) -> None:
    answers = asked(folder, *({"get": page} for page in PAGES))
    assert dict(zip(PAGES, (status for status, _ in answers), strict=True)) == dict.fromkeys(PAGES, 200)


def test_the_api_answers_what_it_answered(folder: Path) -> None:
    old: dict[str, Any] = json.loads(gzip.decompress((HERE / "0.1.0.answers.json.gz").read_bytes()))
    answers = asked(folder, *({"get": f"/api/v1/{path}"} for path in old))
    assert {status for status, _ in answers} == {200}
    found = [
        line
        for (path, before), (_, now) in zip(old.items(), answers, strict=True)
        for line in differences(before, now, path)
        if not line.partition(": ")[0].endswith((*AGES, *HASHES)) and not line.startswith(CHANGED)
    ]
    assert not found, "\n".join(found)


def test_an_old_client_acts_on_old_rows(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "db.sqlite3", tmp_path)
    acts = "/api/v1/acts"
    answers = asked(
        tmp_path,
        {"post": f"{acts}/run.pause/6", "body": {}},
        {"post": f"{acts}/campaign.resume/2", "body": {}},
        {"post": f"{acts}/adapt.stop/2", "body": {"sure": True}},
        {"post": f"{acts}/kernel.verify/1/1", "body": {"sure": True}},
        {"post": f"{acts}/token.revoke/1", "body": {"sure": True}},
        {"get": "/api/v1/searches/6"},
    )
    assert [status for status, _ in answers] == [200] * 6, answers
    assert answers[-1][1]["state"] == "paused"
