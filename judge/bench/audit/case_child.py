"""One child of the candidate that answers several cases of a problem, with a model for each: one process and one CUDA
context instead of as many as there are cases.

What fails there after other cases is asked again in a fresh child, so that no case is blamed for another one. Who is
right in the fresh one alone keeps something of one model for the next, and is wrong for whoever uses it for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from judge.bench.audit.setting import Setting
from judge.bench.exchange.contact import Deadline, SubjectFailed
from judge.bench.judging.asking import Question
from judge.bench.judging.completion import Ended
from judge.bench.judging.correctness import Rounds
from judge.bench.judging.reference import Reference
from judge.values import Verdict

KEPT = "state.other_case"
SURE = ("timeout", "garbage", "touched", "too_large")  # faults that are not asked about again
LACKING = ("oom", "died")  # limits of one process may be used up by earlier models: no fault where a fresh one is right

Answer = TypeVar("Answer")
Judge = Callable[[Rounds], Answer]


class CaseChild:
    """`names`: of the children that it starts, one after the other. `left`: the time for the next case; without it
    the evaluation's."""

    def __init__(self, setting: Setting, names: Iterator[str], left: Callable[[], Deadline] | None = None) -> None:
        self.setting, self._names, self._left = setting, names, left
        self.name = ""  # of the child that lives, if any
        self._answered = 0  # cases

    def start(self) -> None:
        """Have a child import the candidate, unless one has."""
        if not self.name:
            self.name, self._answered = next(self._names), 0
            self.setting.subjects.want({self.name: "run"})

    def release(self) -> None:
        if self.name:
            self.setting.subjects.release(self.name)
            self.name = ""

    def judged(self, reference: Reference, question: Question, judge: Judge[Answer], stage: str) -> Answer:
        """What `judge` returns of a child that can be asked `question` of `reference`. Raises SubjectFailed, Ended."""
        self.start()
        first = not self._answered
        try:
            return self._once(reference, question, judge)
        except (SubjectFailed, Ended) as failed:
            kind = failed.kind if isinstance(failed, SubjectFailed) else ""
            dishonest = isinstance(failed, Ended) and failed.verdict in (Verdict.DISHONEST, Verdict.SUSPECT)
            if first or dishonest or kind in SURE:
                raise
            found = self._afresh(reference, question, judge, failed)
            if kind in LACKING:
                return found
            text = "right in a process of its own, but not after other cases in the same one: keep nothing of a model "
            raise Ended(Verdict.STATE_VIOLATION, stage, KEPT, f"{text}for the next") from failed

    def _afresh(self, reference: Reference, question: Question, judge: Judge[Answer], failed: Exception) -> Answer:
        """The same of a fresh child. Raises what that one does, or `failed` where there is no time for it."""
        self.start()
        try:
            return self._once(reference, question, judge)
        except SubjectFailed as again:
            if again.kind == "timeout":
                raise failed from again
            raise

    def _once(self, reference: Reference, question: Question, judge: Judge[Answer]) -> Answer:
        if self._left is not None:
            self.setting.subjects.contacts[self.name].deadline = self._left()
        try:
            found = judge(self.setting.ready(self.name, reference, question))
        except (SubjectFailed, Ended):
            self.release()  # what it would be worth from here on nobody knows
            raise
        self._answered += 1
        return found
