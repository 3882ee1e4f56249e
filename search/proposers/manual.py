"""Proposer `manual`: puts the prompt on the page and waits; the answer comes in through `replies.parse_reply`."""

from __future__ import annotations

from typing import NoReturn

from search.proposers.prompts import build_prompt
from search.proposers.protocol import Call, Task, WaitingForPerson


class ManualProposer:
    """A person, or another program through the page's form, writes the reply."""

    name = "manual"

    def propose(self, task: Task) -> NoReturn:
        """Always raises WaitingForPerson with the same prompt a model would get."""
        prompt = build_prompt(task)
        raise WaitingForPerson(Call(prompt=prompt.text, model="person", template=prompt.template))
