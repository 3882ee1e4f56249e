"""Proposer `recorded`: answers node k with what the recording holds for node k.

The recording is plain JSON in the run's options, `{"replies": {"1": entry, "2": entry, ...}}` (a list counts from node
1). An entry is one of

- `{"source": text, "summary": text}`: the kernel as it was, used to the letter;
- `{"reason": code, "message": text}`: the step that gave no kernel;
- a text: a reply as a model would send it, read by the same rules; text without fence or patch is the source itself.

Whoever starts the run fills it; `recording_of` makes it from the nodes of a stored run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from search.proposers.patches import has_patches
from search.proposers.protocol import Call, Reply, Task
from search.proposers.replies import fenced_blocks, parse_reply, storable


class RecordedNode(Protocol):
    """What `recording_of` reads of a node row."""

    number: int
    source: str
    summary: str
    reason: str
    message: str


class RecordedProposer:
    """Deterministic: the same recording and node number give the same reply."""

    name = "recorded"

    def propose(self, task: Task) -> Reply:
        """The recorded reply; a Reply with reason "proposal.not_recorded" when there is none for this node."""
        entry = _entry(task.options.get("replies"), task.number)
        text = entry if isinstance(entry, str) else ""
        call = Call(reply=storable(text), model="recorded")
        reply = _reply(task, entry)
        return Reply(reply.source, reply.summary, reply.reason, reply.message, calls=(call,))


def recording_of(nodes: Iterable[RecordedNode]) -> dict[str, dict[str, str]]:
    """The recording of a stored run: node number -> entry. The root and steps that are still open are left out."""
    recording = {}
    for node in nodes:
        if node.number and node.source:
            recording[str(node.number)] = {"source": node.source, "summary": node.summary}
        elif node.number and node.reason:
            recording[str(node.number)] = {"reason": node.reason, "message": node.message}
    return recording


def _entry(recording: object, number: int) -> object:
    if isinstance(recording, dict):
        return recording.get(str(number), recording.get(number))
    if isinstance(recording, list) and 0 < number <= len(recording):
        return recording[number - 1]
    return None


def _reply(task: Task, entry: object) -> Reply:
    if isinstance(entry, dict):
        return _from_row(entry)
    if not isinstance(entry, str):
        return Reply(reason="proposal.not_recorded", message=f"The recording holds no reply for node {task.number}.")
    blocks, _, unclosed = fenced_blocks(entry)
    if blocks or unclosed or has_patches(entry) or not entry.strip():
        return parse_reply(task, entry)
    return Reply(source=storable(entry))


def _from_row(entry: dict[str, Any]) -> Reply:
    source = entry.get("source")
    if isinstance(source, str) and source:
        return Reply(source=storable(source, len(source) + 1), summary=str(entry.get("summary") or "")[:200])
    reason = str(entry.get("reason") or "proposal.no_code")[:60]
    return Reply(reason=reason, message=str(entry.get("message") or "The recorded step gave no kernel."))
