"""Chromium and PostgreSQL for the suite: found, else installed, else said to be missing."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


def _apt_install(package: str) -> bool:
    """Install a Debian package when we are root and apt-get is here. True when it worked."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    quiet = {"env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, "stdout": subprocess.DEVNULL}
    subprocess.run(["apt-get", "update", "-qq"], check=False, **quiet)  # type: ignore[call-overload]
    done = subprocess.run(["apt-get", "install", "-y", "-qq", package], check=False, **quiet)  # type: ignore[call-overload]
    return bool(done.returncode == 0)


def find_chromium() -> str | None:
    """Path of a Chromium: `CHROMIUM`, one on PATH, or Playwright's own download."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named if Path(named).exists() else None
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache" / "ms-playwright"))
    own = sorted(cache.glob("chromium-*/chrome-linux*/chrome"))
    return str(own[-1]) if own else None


def ensure_chromium() -> str | None:
    """Like `find_chromium`, installing it first when it is missing (apt as root, else Playwright's download)."""
    if found := find_chromium():
        return found
    if not _apt_install("chromium"):
        import sys

        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)
    return find_chromium()


def _postgres_bin() -> Path | None:
    """Folder that holds initdb, pg_ctl and postgres."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda place: float(place.parent.name))
    on_path = shutil.which("initdb")
    places += [Path(on_path).resolve().parent] if on_path else []
    return next((place for place in reversed(places) if (place / "initdb").exists()), None)


@contextlib.contextmanager
def postgres() -> Iterator[str | None]:
    """DATABASE_URL of a PostgreSQL for tests: `TEST_DATABASE_URL`, else a private cluster that lives for the block.

    Yields None when there is no server and none can be installed.
    """
    if given := os.environ.get("TEST_DATABASE_URL"):
        yield given
        return
    if _postgres_bin() is None:
        _apt_install("postgresql")
    folder = _postgres_bin()
    if folder is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="adaexplore-pg-") as place:
        yield from _cluster(folder, Path(place))


def _cluster(folder: Path, place: Path) -> Iterator[str]:
    as_user: dict[str, object] = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        account = next(entry for name in ("postgres", "nobody") for entry in pwd.getpwall() if entry.pw_name == name)
        os.chown(place, account.pw_uid, account.pw_gid)
        as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    data, quiet = place / "data", {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "cwd": place}
    run = {**as_user, **quiet, "check": True}
    subprocess.run([folder / "initdb", "-D", data, "-U", "tests", "-A", "trust", "--no-sync", "-E", "UTF8"], **run)  # type: ignore[call-overload]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = (
        f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories='{place}' "
        "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=200"
    )
    start = [folder / "pg_ctl", "-D", data, "-l", place / "log", "-o", options, "-w", "start"]
    subprocess.run(start, **run)  # type: ignore[call-overload]
    try:
        yield f"postgres://tests@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([folder / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **{**run, "check": False})  # type: ignore[call-overload]


def axe_script() -> str:
    """Source of axe-core, which `make setup-dev` installs; FileNotFoundError says so when it is missing."""
    path = Path(__file__).resolve().parent.parent / "static" / "node_modules" / "axe-core" / "axe.min.js"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run make setup-dev")
    return path.read_text()
