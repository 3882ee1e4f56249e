"""First code of a sanitizer's process: leave the host behind, then become compute-sanitizer.

`python -m judge.bench.sanitizing.entering ORDER`, where ORDER is JSON: `level` (one of LEVELS), `folder`, `read` (the
tool's own folders), `cuda` (whether a GPU is used), `command`. What the namespaces came to is added to the command.
The tool talks to the program over TCP on this machine: the own network has its loopback up, and nothing else.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import socket
import struct
import sys
from collections.abc import Iterable

from judge.bench.sandboxing import sandbox
from judge.bench.sandboxing.sandbox import Bounds, Layers

LEVELS = ("files", "host files")  # a file system of its own, or Landlock alone; the strongest comes first
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
MOST_FILE_BYTES = 1 << 30


def entered(level: str, folder: str, read: Iterable[str], *, cuda: bool) -> Layers:
    """Leave network, IPC and ids of the host, with "files" also its file system. Raises OSError."""
    layers = sandbox.enter_namespaces()
    if sandbox.namespaced(layers):
        loopback_up()
    if level == LEVELS[0] and layers["files"] == sandbox.OWN_MOUNTS:
        sandbox.leave_files(Bounds(folder, memory_mb=None, cpu_s=0, allow_fork=True, cuda=cuda), read)
        return layers | {"files": "active"}
    if layers["files"] == sandbox.OWN_MOUNTS:
        layers |= {"files": "off (compute-sanitizer does not run in a file system of its own here)"}
    return layers


def loopback_up() -> None:
    """Let processes of this network reach each other. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(control, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def main() -> None:
    order = json.loads(sys.argv[1])
    sandbox.die_with_parent()
    layers = entered(order["level"], order["folder"], order["read"], cuda=order["cuda"])
    own = os.geteuid()
    os.setresuid(own, own, own)  # the loader passes over the tool's libraries where real and effective ids differ
    os.umask(0o007)
    for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, MOST_FILE_BYTES)):
        resource.setrlimit(kind, (most, most))
    os.chdir(order["folder"])
    sandbox.die_with_parent()  # changing ids forgets it
    os.execv(order["command"][0], [*order["command"], json.dumps(layers)])


if __name__ == "__main__":
    main()
