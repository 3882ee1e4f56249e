"""What a service asks its caller to enqueue next. Services never touch a queue themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

IO_QUEUE = "io"


@dataclass(frozen=True)
class Hop:
    """One task to send: `target` is a run id for advance, a campaign entry's for admit_entry, an adapt task's for
    compose_task and admit_task, a failure's for learn, a recheck's for recheck_kernel, else a node id.

    Sending it twice is harmless.
    """

    task: Literal[
        "advance", "propose", "judge_node", "admit_entry", "compose_task", "admit_task", "learn", "recheck_kernel"
    ]
    target: int
    queue: str = IO_QUEUE
    delay_s: float = 0.0
    expires_s: float | None = None  # not taken up by then it is dropped: another one is sent
