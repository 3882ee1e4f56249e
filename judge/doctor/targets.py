"""Things outside the sandbox for a probe to reach: files, sockets, a variable. Made for the purpose, removed after."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from judge.bench.probing.attempts import Targets
from judge.values import Limits

NAMESPACES = ("net", "ipc", "user")
SECRET = "ADAEXPLORE_DOCTOR_SECRET"


@contextmanager
def targets(*, neighbour: int, limits: Limits, cuda: bool) -> Iterator[Targets]:
    """Targets for one probe; `neighbour` is the process id of another child."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="adaexplore-doctor-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o777)
        file = folder / "readable"
        file.write_text("anybody may read this")
        file.chmod(0o644)
        unix = str(folder / "socket")
        abstract = f"\0adaexplore-doctor-{secrets.token_hex(8)}"
        tcp = stack.enter_context(_listening(socket.AF_INET, ("127.0.0.1", 0)))
        stack.enter_context(_listening(socket.AF_UNIX, unix))
        stack.enter_context(_listening(socket.AF_UNIX, abstract))
        Path(unix).chmod(0o777)
        os.environ[SECRET] = "1"
        stack.callback(os.environ.pop, SECRET, None)
        yield Targets(
            file=str(file),
            folder=str(folder),
            port=int(tcp.getsockname()[1]),
            unix=unix,
            abstract=abstract,
            neighbour=neighbour,
            namespaces={kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in NAMESPACES},
            secret=SECRET,
            memory_mb=limits.memory_mb,
            cuda=cuda,
        )


@contextmanager
def _listening(family: int, address: object) -> Iterator[socket.socket]:
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(address)  # type: ignore[arg-type]
        server.listen(8)
        yield server
