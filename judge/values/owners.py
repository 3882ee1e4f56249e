"""Names of processes that hold leases, across hosts and containers. Standard library only."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from uuid import uuid4


def here() -> str:
    """Where a process id of this process means something: host, boot and process namespace.

    Containers may share a host name. Without /proc the name has to do.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return socket.gethostname()[:32]
    return f"{socket.gethostname()[:32]}@{boot}-{namespace}"


def owner_name() -> str:
    """A name no other claim has, so that a late worker cannot be taken for its successor."""
    return f"{here()}:{os.getpid()}:{uuid4().hex[:12]}"


def owner_lives(owner: str) -> bool:
    """Whether the process of a name from here still runs. True when that cannot be known: its lease expires by itself,
    as that of a process elsewhere does."""
    if not owner.startswith(here() + ":"):
        return True
    try:
        os.kill(int(owner.split(":")[1]), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError, IndexError):
        pass
    return True
