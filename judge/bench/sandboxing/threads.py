"""What every thread of this process has given up, as the kernel tells it. Standard library only.

Landlock, capabilities and no_new_privs belong to a thread and to what it starts, not to the process. A driver starts
threads of its own before the child is locked, and the candidate can run code on them: as a callback of a stream, or by
a signal.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapAmb")  # CapBnd is not ours to drop without a user namespace
TASKS = Path("/proc/self/task")
GONE_S = 10.0
Status = dict[str, str]


def statuses() -> list[Status]:
    """The fields of `status` for every thread of this process. Raises OSError."""
    found = (_fields(path / "status") for path in TASKS.iterdir())
    return [status for status in found if status]


def _fields(path: Path) -> Status:
    """Empty for a thread that has ended meanwhile."""
    try:
        rows = [line.partition(":") for line in path.read_text().splitlines()]
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in rows}


def others() -> int:
    """How many threads there are beside this one. Raises OSError."""
    return len(statuses()) - 1


def without_filter() -> int:
    """How many threads run under no system call filter. Raises OSError."""
    return sum(status["Seccomp"] != "2" for status in statuses())


def without_no_new_privs() -> int:
    """How many threads may gain privileges. Raises OSError."""
    return sum(status["NoNewPrivs"] != "1" for status in statuses())


def with_capabilities() -> int:
    """How many threads have a capability left. Raises OSError."""
    return sum(any(int(status[name], 16) for name in CAPABILITIES) for status in statuses())


def with_another_root() -> int:
    """How many threads do not see the root folder that this one sees. Raises OSError."""
    here = Path("/").stat()
    roots = [(path / "root").stat() for path in TASKS.iterdir()]
    return sum((root.st_dev, root.st_ino) != (here.st_dev, here.st_ino) for root in roots)


def run_apart(step: Callable[[], None]) -> None:
    """Run `step` on a thread of its own, which is gone when this returns: what that thread gives up, the threads it
    starts lack, and the caller keeps. Raises what `step` raises, and OSError for a thread that stays."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller
            raised.append(error)

    thread = threading.Thread(target=run, name="apart")
    thread.start()
    thread.join()
    _wait_until_gone(TASKS / str(thread.native_id))
    if raised:
        raise raised[0]


def _wait_until_gone(task: Path) -> None:
    """Python calls a thread ended a moment before the kernel does."""
    deadline = time.monotonic() + GONE_S
    while task.exists():
        if time.monotonic() > deadline:
            raise OSError(errno.ETIMEDOUT, "a thread of ours does not end")
        time.sleep(0.0005)
