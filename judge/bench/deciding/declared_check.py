"""A candidate on the problem's other cases: a fresh reference and a fresh model each, in one child. They are published,
so what is wrong in one is told in full."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from judge.bench.admission.declared import other_cases, with_case
from judge.bench.audit.case_child import CaseChild
from judge.bench.audit.excuses import is_excused
from judge.bench.audit.setting import GIVEN, Setting, judge_case
from judge.bench.deciding.referee_cache import RefereeCache
from judge.bench.exchange.claims import Forwarded
from judge.bench.exchange.contact import Deadline, SubjectFailed
from judge.bench.exchange.nested import NotCarried
from judge.bench.foreign.faults import kind_of
from judge.bench.judging.asking import Question, Questions
from judge.bench.judging.comparison import STAGE
from judge.bench.judging.completion import Ended, in_case, of_candidate
from judge.bench.judging.correctness import Rounds
from judge.bench.judging.reference import REFUSALS, Reference
from judge.values import CaseRecord, JudgeError

CASES = "cases"  # the stage


@dataclass(frozen=True)
class Answered:
    """A case in which the candidate is right: its child, and the first question with the answer and its launches."""

    case: str
    child: str
    reference: Reference
    question: Question
    rounds: Rounds
    reply: Forwarded


@dataclass(frozen=True)
class Counting:
    """Times are modelled from what the first answer of each weighted case launched: one draw, from a fixed seed."""

    seed: int
    add: Callable[[Answered], None]  # may raise Ended


def cases_to_ask(cache: RefereeCache, reference: Reference, device: str) -> dict[str, str]:
    """As `other_cases`, found once for all candidates of the problem."""
    if cache.declared is None:
        cache.declared = other_cases(reference.loaded, on_gpu=device != "cpu")
    return cache.declared


@dataclass(frozen=True)
class DeclaredCheck:
    """Of one candidate. `weighted`: cases that count for its speedup. Rounds go to `records`."""

    setting: Setting
    records: list[CaseRecord]
    weighted: Collection[str] = ()
    counting: Counting | None = None

    def run(self, cases: dict[str, str], wall_s: float) -> str:
        """Ask every case; those that are not asked are recorded with the reason. Raises Ended, with the case's name.

        They come in an order that nobody knows: a candidate that is slow on purpose cannot choose which are left out,
        nor what it can have kept of cases before.
        """
        asked, until = 0, time.monotonic() + wall_s
        names = (f"case#{number}" for number in itertools.count(1))
        together = self._child(names, until)
        for name, why in secrets.SystemRandom().sample(sorted(cases.items()), len(cases)):
            child = self._child(names, until) if self._is_alone(name) else together
            why = why or self.ask(name, child, until - time.monotonic())
            asked += not why
            if why:
                self.records.append(CaseRecord(name, GIVEN, ok=True, detail=f"left out: {why}"[:400]))
            if child is not together:
                child.release()
        together.release()
        return f"{asked} right" + (f", {len(cases) - asked} left out" if asked < len(cases) else "")

    def _child(self, names: Iterator[str], until: float) -> CaseChild:
        def left() -> Deadline:
            return Deadline(until - time.monotonic(), self.setting.assignment.payload["stage_s"])

        return CaseChild(self.setting, names, left)

    def _is_alone(self, name: str) -> bool:
        """Whether a case has a child of its own: where launches are counted, which first ones differ from later ones,
        and where memory is short."""
        return (self.counting is not None and name in self.weighted) or self.setting.reference.lean

    def ask(self, name: str, child: CaseChild, left_s: float) -> str:
        """Why the case was left out; empty where the candidate is right. Two rounds: as given, then other content."""
        if left_s <= 0:
            return "the cases before it took all the time"
        child.start()  # it imports the candidate while the reference answers
        setting = self.setting
        counting = self.counting if name in self.weighted else None
        with with_case(setting.reference.loaded, name) as loaded:
            try:
                reference = Reference(loaded, setting.device, setting.reference.policy)
                seed = None if counting is None else counting.seed
                question = Questions(reference).question(GIVEN, reference.first, seed)
            except (*REFUSALS, MemoryError, NotCarried) as error:
                if kind_of(error) != "oom" and setting.reference.whereabouts.device_lost():
                    raise JudgeError(f"the referee's GPU context broke in case {name!r}") from error
                return f"the reference cannot be run here: {type(error).__name__}"
            if not question.decides:
                return "the reference has no answer to judge by"
            try:
                answered = self._judge(reference, question, name, child)
                if counting is not None:
                    counting.add(answered)
            except SubjectFailed as failed:
                if is_excused(setting, failed, reference, question):
                    return "it is too large for this device"
                raise in_case(of_candidate(failed, STAGE), name, STAGE) from failed
            except Ended as ended:
                raise in_case(ended, name, STAGE) from ended
        return ""

    def _judge(self, reference: Reference, question: Question, name: str, child: CaseChild) -> Answered:
        count, before = self.counting is not None and name in self.weighted, len(self.records)

        def judge(rounds: Rounds) -> Answered:
            del self.records[before:]  # of a child that was asked before this one
            rounds.case, rounds.records = name, self.records
            reply = judge_case(rounds, question, STAGE, count=count)
            return Answered(name, child.name, reference, question, rounds, reply)

        return child.judged(reference, question, judge, STAGE)
