"""What the judge asks of a problem, asked where there is no candidate yet."""

from __future__ import annotations

from collections.abc import Iterator

from judge.bench.foreign.faults import kind_of
from judge.bench.foreign.loading import LoadedProblem
from judge.bench.judging.asking import Question, Questions
from judge.bench.judging.completion import Ended
from judge.bench.judging.reference import REFUSALS, Reference
from judge.values import JudgeError, Policy


def questions(loaded: LoadedProblem, device: str, policy: Policy, *, few: bool) -> Iterator[Question]:
    """Every round that the reference has an answer for; with `few` two of them, for references that are slow.

    Ends early where there is nothing to judge by: other stages say why. Raises MemoryError where even the first round
    takes more memory than there is, or judging would."""
    asked = Questions(Reference(loaded, device, policy))
    try:
        first = asked.first(None)
    except (Ended, JudgeError, *REFUSALS) as error:
        if kind_of(error) == "oom" or getattr(error, "reason", "") == "problem.memory":
            raise MemoryError(getattr(error, "message", str(error))) from error
        return
    plan = asked.reference.plan
    if plan is not None and plan.least > plan.room:
        raise MemoryError(plan.words)
    try:
        yield first
        asked.done_with(first)
        for _, question in asked.rounds():
            yield question
            if few:
                return
            asked.done_with(question)
    except (Ended, JudgeError, MemoryError, *REFUSALS):
        return
