"""The questions a candidate would be asked, in the referee's own words: what null candidates are held against."""

from __future__ import annotations

from collections.abc import Iterator

from judge.bench.foreign.loading import LoadedProblem
from judge.bench.judging.asking import Question, Questions
from judge.bench.judging.endings import Ended
from judge.bench.judging.reference import REFUSALS, Reference
from judge.values import JudgeError, Policy


def questions(loaded: LoadedProblem, device: str, policy: Policy, *, few: bool) -> Iterator[Question]:
    """Every round that the reference has an answer for; with `few` two of them, for references that are slow.

    Ends early where there is nothing to judge by: other stages say why.
    """
    asked = Questions(Reference(loaded, device, policy))
    try:
        yield asked.first(None)
        for _, question in asked.rounds():
            yield question
            if few:
                return
    except (Ended, JudgeError, *REFUSALS):
        return
