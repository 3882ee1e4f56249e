"""Where candidates come from. One protocol, `propose(task) -> Reply`; `get` names the implementations."""

from __future__ import annotations

from search.proposers.protocol import Reply, Task

__all__ = ["Reply", "Task"]
