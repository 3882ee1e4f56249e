"""The environment is read loudly: a wrong value names the variable and says what to write."""

from __future__ import annotations

import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from django.core.exceptions import ImproperlyConfigured

from adaexplore_site.core import env


def test_a_flag_that_is_not_a_flag_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG", "maybe")
    with pytest.raises(ImproperlyConfigured, match=r"DEBUG='maybe'.*write 1 or 0"):
        env.flag("DEBUG")


@pytest.mark.parametrize("value", ["0", "70000", "eighty"])
def test_a_port_out_of_range_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("PORT", value)
    with pytest.raises(ImproperlyConfigured, match=r"PORT=.*1 to 65535"):
        env.integer("PORT", 8000, minimum=1, maximum=65535)


@pytest.mark.parametrize(
    ("value", "taken"), [("0.5", True), ("2", True), ("0.49", False), ("2.01", False), ("nan", False)]
)
def test_the_ends_of_a_range_belong_to_it(monkeypatch: pytest.MonkeyPatch, value: str, taken: bool) -> None:
    monkeypatch.setenv("RATE", value)
    if taken:
        assert env.number("RATE", 1.0, minimum=0.5, maximum=2.0) == float(value)
        return
    with pytest.raises(ImproperlyConfigured, match=r"RATE=.*a number from 0\.5 to 2"):
        env.number("RATE", 1.0, minimum=0.5, maximum=2.0)


def test_only_postgresql_urls_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://u@h/db")
    with pytest.raises(ImproperlyConfigured, match="PostgreSQL"):
        env.database()
    monkeypatch.setenv("DATABASE_URL", "postgres://u@h:5433/db")
    assert (env.database()["HOST"], env.database()["PORT"]) == ("h", 5433)


def test_no_connection_outlives_the_request_that_opened_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://u@h:5433/db")
    assert (env.database()["CONN_MAX_AGE"], env.database()["CONN_HEALTH_CHECKS"]) == (0, True)


def test_without_a_url_sqlite_takes_write_locks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "")
    options = env.database()["OPTIONS"]
    assert isinstance(options, dict)
    assert options["transaction_mode"] == "IMMEDIATE"
    assert "journal_mode=WAL" in options["init_command"]


def test_the_secret_key_is_made_once_and_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADAEXPLORE_DATA", str(tmp_path / "deep" / "er"))
    monkeypatch.delenv("SECRET_KEY", raising=False)
    first = env.secret_key()
    assert len(first) > 40
    assert env.secret_key() == first
    assert stat.S_IMODE((tmp_path / "deep" / "er" / "secret_key").stat().st_mode) == 0o600


def test_a_long_data_folder_still_gets_a_short_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADAEXPLORE_DATA", str(tmp_path / ("x" * 120)))
    monkeypatch.setenv("REDIS_URL", "")
    assert len(str(env.embedded_socket())) < 107
    assert env.redis_url().endswith(f"@{env.embedded_socket()}")
    assert env.celery_url() == env.redis_url().replace("unix://", "redis+socket://")


def test_the_broker_password_is_made_once_private_and_in_both_addresses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "50% of #1"
    monkeypatch.setenv("ADAEXPLORE_DATA", str(folder))
    monkeypatch.setenv("REDIS_URL", "")
    password = env.embedded_password()
    assert len(password) > 40 and env.embedded_password() == password
    assert stat.S_IMODE((folder / "valkey_password").stat().st_mode) == 0o600
    for url in (env.redis_url(), env.celery_url()):
        parts = urlsplit(url)
        assert (parts.password, unquote(parts.path)) == (password, str(env.embedded_socket()))


def test_with_an_address_of_ones_own_no_password_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADAEXPLORE_DATA", str(tmp_path))
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere:6379/0")
    assert env.redis_url() == "redis://elsewhere:6379/0"
    assert not list(tmp_path.iterdir())
