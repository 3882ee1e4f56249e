"""A model of known failure rates behind the real protocol: what a rule in its prompt changes is planted."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adaexplore_site.core.llm import ChatClient, Endpoint
from judge.values import Job, Outcome
from memory.prompting.choices import MemoryChoice
from memory.prompting.lift import Lift, lifts_of
from memory.rules.models import Rule
from search.proposers.external import OpenAIProposer
from search.proposers.protocol import Reply, Task
from search.records.models import Run
from search.records.queue import FollowUp
from tests.llm_stub import StubLLM
from tests.memory.prompt_rows import make_rule
from tests.search.fakes import FakeBench, passed, wrong
from tests.search.makers import Worker, make_run

BLOCK = "Notes learned from earlier failures"
EFFECTS = {"helps": 0.25, "does nothing": 0.0, "harms": -0.2}
BASE = 0.5  # share of valid kernels of a prompt without any of them
CHOICE = MemoryChoice(withhold=0.4)


@dataclass
class Model:
    """Answers a prompt with a kernel that is right with BASE plus the effect of every rule it finds in the prompt."""

    effects: Mapping[str, float]  # words of a rule -> what it adds
    rng: random.Random
    asked: int = 0
    seen: dict[str, int] = field(default_factory=dict)

    def __call__(self, body: Mapping[str, Any]) -> str:
        _, _, block = str(body["messages"][-1]["content"]).partition(BLOCK)
        found = [words for words in self.effects if words in block]
        for words in found:
            self.seen[words] = self.seen.get(words, 0) + 1
        self.asked += 1
        right = self.rng.random() < BASE + sum(self.effects[words] for words in found)
        return f"Summary: a try\n\n```python\nclass ModelNew:\n    NUMBER = {self.asked}\n    RIGHT = {right}\n```\n"


class Judge(FakeBench):
    """Finds right what says so."""

    def evaluate(self, job: Job, *, progress: Any = None) -> Outcome:
        return passed(1.5) if "RIGHT = True" in job.candidate else wrong()


@dataclass
class Asking:
    """The `openai` proposer at the stub, in the place of the one that a run's name would give."""

    proposer: OpenAIProposer
    name: str = "openai"

    def propose(self, task: Task) -> Reply:
        return self.proposer.propose(task)

    def __call__(self, name: str) -> Asking:
        return self


def asking(stub: StubLLM) -> Asking:
    client = ChatClient(Endpoint(base_url=stub.url, api_key="stub-key", model="stub"), rng=random.Random(0))
    return Asking(OpenAIProposer(client))


def planted(seed: int, *, steps: int, stub: StubLLM, proposer: Asking) -> tuple[Run, dict[str, Lift]]:
    """One search with three rules of known effect, and the lifts that its rows give."""
    rules = {name: make_rule(f"Rule {seed} {name}.", support=0, origin="person") for name in EFFECTS}
    stub.answer = Model({f"Rule {seed} {name}.": effect for name, effect in EFFECTS.items()}, random.Random(seed))
    run = make_run(steps=steps, seed=seed, concurrency=16, memory=CHOICE, title=f"planted {seed}")
    worker = Worker(proposer, Judge())  # type: ignore[arg-type]
    worker.work([FollowUp("advance", run.pk)], limit=100 * steps)
    Rule.objects.update(state="retired")
    lifts = lifts_of((rule.pk for rule in rules.values()), among=len(EFFECTS))
    return run, {name: lifts[rule.pk] for name, rule in rules.items()}
