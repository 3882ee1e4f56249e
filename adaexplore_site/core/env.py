"""Typed readers of the environment. Wrong values fail loudly, with the variable's name and what to write."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from urllib.parse import quote

import environ
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent.parent
MAX_UPLOAD_BYTES = 32 << 20  # the largest file that a form takes; the web process asks before Django is set up


def text(name: str, default: str = "") -> str:
    """The stripped value of `name`, or `default` when unset or empty."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool = False) -> bool:
    """True for 1/true/yes/on, False for 0/false/no/off; anything else raises ImproperlyConfigured."""
    raw = text(name).lower()
    if not raw:
        return default
    if raw in {"1", "true", "yes", "on"}:
        return True
    if raw in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name}={raw!r} is not a yes/no value: write 1 or 0.")


def integer(name: str, default: int, *, minimum: int, maximum: int) -> int:
    """A whole number within [minimum, maximum]; anything else raises ImproperlyConfigured."""
    raw = text(name)
    if not raw:
        return default
    try:
        value = int(raw)
    except ValueError:
        value = minimum - 1
    if not minimum <= value <= maximum:
        raise ImproperlyConfigured(f"{name}={raw!r} must be a whole number from {minimum} to {maximum}.")
    return value


def number(name: str, default: float, *, minimum: float, maximum: float) -> float:
    """A number within [minimum, maximum]; anything else raises ImproperlyConfigured."""
    raw = text(name)
    if not raw:
        return default
    try:
        value = float(raw)
    except ValueError:
        value = float("nan")
    if not minimum <= value <= maximum:
        raise ImproperlyConfigured(f"{name}={raw!r} must be a number from {minimum:g} to {maximum:g}.")
    return value


def data_dir() -> Path:
    """Folder for the database, uploads, logs, sockets and caches (`ADAEXPLORE_DATA`, default `.data`)."""
    return Path(text("ADAEXPLORE_DATA", str(BASE_DIR / ".data"))).expanduser().resolve()


def database() -> dict[str, object]:
    """Django database settings: `DATABASE_URL`, or SQLite in WAL mode with immediate transactions."""
    url = text("DATABASE_URL")
    if url:
        try:
            config = dict(environ.Env.db_url_config(url))
        except ValueError as error:
            raise ImproperlyConfigured(
                f"DATABASE_URL cannot be read ({error}): write postgres://user:password@host/name."
            ) from error
        if "postgresql" not in str(config.get("ENGINE")):
            raise ImproperlyConfigured("DATABASE_URL must name a PostgreSQL database; leave it unset for SQLite.")
        # No persistent connections: each request has a thread of its own, which ends without giving its connection
        # back. The web process has a pool instead (adaexplore_site.operations.web).
        config["CONN_MAX_AGE"] = 0
        config["CONN_HEALTH_CHECKS"] = True
        return config
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(data_dir() / "db.sqlite3"),
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def redis_url() -> str:
    """`REDIS_URL`, or the address of the embedded server that `manage.py up` keeps: a private socket, a password.

    A value for settings, never for an environment or a command line: both can be read from outside the process.
    """
    return text("REDIS_URL") or f"unix://:{embedded_password()}@{quote(str(embedded_socket()))}"


def embedded_password() -> str:
    """Password of the embedded server: random, made once, kept in the data folder (mode 0600)."""
    return _kept("valkey_password")


def embedded_socket() -> Path:
    """Private socket of the embedded Valkey server. Kept short: a socket path holds at most 107 bytes."""
    path = data_dir() / "valkey.sock"
    if len(str(path)) > 100:
        import hashlib
        import tempfile

        digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
        path = Path(tempfile.gettempdir()) / f"adaexplore-{os.getuid()}-{digest}.sock"
    return path


def celery_url() -> str:
    """The broker address as Celery spells it."""
    url = redis_url()
    return "redis+socket://" + url.removeprefix("unix://") if url.startswith("unix://") else url


def secret_key() -> str:
    """`SECRET_KEY`, or a random key created once in the data folder (mode 0600)."""
    return text("SECRET_KEY") or _kept("secret_key")


def _kept(name: str) -> str:
    """A random secret in the data folder, made on first use, for this account only."""
    path = data_dir() / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        mine = path.with_suffix(f".{os.getpid()}")
        descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as handle:
            handle.write(secrets.token_urlsafe(50))
        try:
            os.link(mine, path)  # two first starts at once: one secret wins
        except FileExistsError:
            pass
        mine.unlink()
    return path.read_text().strip()
