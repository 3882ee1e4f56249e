"""Other accounts of the machine read nothing of ours: folders and files are made private, and old ones are repaired."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.core.management import call_command

from adaexplore_site.core import private_files
from adaexplore_site.operations.checks import data_folder_is_private
from judge.doctor.report import Report

ROOT = Path(__file__).resolve().parents[3]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def old_folder(tmp_path: Path) -> Path:
    """A data folder as earlier versions left it."""
    folder = tmp_path / "data"
    for name in ("logs", "device_keys", "artefacts"):
        (folder / name).mkdir(parents=True)
    for name in ("db.sqlite3", "db.sqlite3-wal", "db.sqlite3-shm", "secret_key", "logs/web.log", "device_keys/lab.key"):
        (folder / name).write_text("x")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


@pytest.fixture(autouse=True)
def keep_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ADAEXPLORE_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "adaexplore_site.settings"}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True, check=True, umask=0o022
    )


def test_a_new_data_folder_and_its_files_are_for_this_account_only(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert "open to other accounts" not in run(folder, "manage.py", "migrate", "--verbosity", "0").stderr
    assert mode(folder) == 0o700
    found = {path.name: mode(path) for path in folder.rglob("*") if path.is_file()}
    assert "secret_key" in found and ("db.sqlite3" in found or os.environ.get("DATABASE_URL"))
    assert {name: oct(each) for name, each in found.items() if each & 0o077} == {}


@pytest.mark.parametrize(
    "module", ["adaexplore_site.asgi", "adaexplore_site.celery; adaexplore_site.celery.app.conf.broker_url"]
)
def test_every_process_writes_for_this_account_only(tmp_path: Path, module: str) -> None:
    """Daphne and Celery are started by their own programs: they meet the settings, not manage.py."""
    run(tmp_path / "data", "-c", f"import {module}; open({str(tmp_path / 'made')!r}, 'w').close()")
    assert mode(tmp_path / "made") == 0o600


def test_an_open_data_folder_is_repaired_at_the_next_start_and_told_of_once(old_folder: Path) -> None:
    told = run(old_folder, "manage.py", "check").stderr
    assert f"The data folder {old_folder} was open to other accounts (mode 755): it now has mode 700." in told
    for name in ("db.sqlite3", "db.sqlite3-wal", "secret_key", "logs/web.log", "device_keys/lab.key"):
        assert name in told and mode(old_folder / name) == 0o600
    assert (mode(old_folder), mode(old_folder / "logs"), mode(old_folder / "device_keys")) == (0o700,) * 3
    assert private_files.prepare(old_folder) == []


def test_a_link_in_the_folder_changes_nothing_elsewhere(old_folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    for path, want in ((outside, 0o755), (outside / "file", 0o644)):
        path.chmod(want)
    (old_folder / "secret_key").unlink()
    (old_folder / "secret_key").symlink_to(outside / "file")
    (old_folder / "logs/web.log").unlink()
    (old_folder / "logs").rmdir()
    (old_folder / "logs").symlink_to(outside)
    private_files.prepare(old_folder)
    assert (mode(outside), mode(outside / "file")) == (0o755, 0o644)


def test_a_folder_that_all_accounts_share_is_left_as_it_is_and_reported(tmp_path: Path, settings) -> None:
    tmp_path.chmod(0o1777)
    assert private_files.prepare(tmp_path) == []
    assert mode(tmp_path) == 0o1777
    settings.DATA_DIR = tmp_path
    (found,) = data_folder_is_private(None)
    assert "shared by all accounts" in found.msg and "ADAEXPLORE_DATA" in str(found.hint)


def test_the_system_check_names_an_open_folder_and_how_to_close_it(old_folder: Path, settings) -> None:
    settings.DATA_DIR = old_folder
    (found,) = [message for message in run_checks() if message.id == "adaexplore.W001"]
    assert "mode 755" in found.msg and found.hint == f"Run: chmod 700 {old_folder}"
    old_folder.chmod(0o700)
    assert [message for message in run_checks() if message.id == "adaexplore.W001"] == []


def test_the_folder_of_another_account_is_reported(old_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_folder.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: old_folder.stat().st_uid + 54321)
    ((what, hint),) = private_files.faults(old_folder)
    assert "belongs to" in what and hint.startswith("Run: chown -R ")


def test_the_doctor_has_a_line_for_the_data_folder(old_folder: Path, settings, monkeypatch) -> None:
    def examine(devices, *, required, target, known):
        return Report((), tuple(known), ())

    monkeypatch.setattr("judge.management.commands.judge_doctor.examine", examine)
    settings.DATA_DIR = old_folder
    said = StringIO()
    call_command("judge_doctor", "--device", "interpreter", stdout=said)
    assert "BAD" in said.getvalue() and "chmod 700" in said.getvalue()
    old_folder.chmod(0o700)
    call_command("judge_doctor", "--device", "interpreter", stdout=(said := StringIO()))
    assert "for this account only" in said.getvalue()
