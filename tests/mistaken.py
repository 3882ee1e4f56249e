"""The built-in proposer with the mistakes of language models, so that failures and memory can be shown without one."""

from __future__ import annotations

from dataclasses import replace

from search.proposers.builtin import BuiltinProposer
from search.proposers.protocol import Reply, Task

MISTAKES = {"dialect": "mixed"}


class MistakenProposer(BuiltinProposer):
    """As in adapt runs: every search makes mistakes."""

    def propose(self, task: Task) -> Reply:
        return super().propose(replace(task, options=task.options | MISTAKES))
