"""A candidate on the problem's other cases: a fresh reference and a fresh child each. They are published, so what is
wrong in one is told in full."""

from __future__ import annotations

import secrets
import time

from judge.bench.admission.declared import other_cases, with_case
from judge.bench.audit.excuses import is_excused
from judge.bench.audit.setting import GIVEN, Setting, judge_case
from judge.bench.deciding.referee_cache import RefereeCache
from judge.bench.exchange.contact import Deadline, SubjectFailed
from judge.bench.exchange.nested import NotCarried
from judge.bench.foreign.faults import kind_of
from judge.bench.judging.asking import Question, Questions
from judge.bench.judging.comparison import STAGE
from judge.bench.judging.completion import Ended, of_candidate
from judge.bench.judging.reference import REFUSALS, Reference
from judge.values import CaseRecord, JudgeError

CASES = "cases"  # the stage


def cases_to_ask(cache: RefereeCache, reference: Reference, device: str) -> dict[str, str]:
    """As `other_cases`, found once for all candidates of the problem."""
    if cache.declared is None:
        cache.declared = other_cases(reference.loaded, on_gpu=device != "cpu")
    return cache.declared


def check_declared(setting: Setting, cases: dict[str, str], records: list[CaseRecord], wall_s: float) -> str:
    """Ask every case; those that are not asked are recorded with the reason. Raises Ended, with the case's name.

    They come in an order that nobody knows: a candidate that is slow on purpose cannot choose which are left out.
    """
    asked, until = 0, time.monotonic() + wall_s
    shuffled = secrets.SystemRandom().sample(sorted(cases.items()), len(cases))
    for number, (name, why) in enumerate(shuffled, 1):
        why = why or _ask(setting, name, f"case#{number}", records, until - time.monotonic())
        asked += not why
        if why:
            records.append(CaseRecord(name, GIVEN, ok=True, detail=f"left out: {why}"[:400]))
    return f"{asked} right" + (f", {len(cases) - asked} left out" if asked < len(cases) else "")


def _ask(setting: Setting, name: str, child: str, records: list[CaseRecord], left_s: float) -> str:
    """Why the case was left out; empty where the candidate is right. Two rounds: as given, then other content."""
    if left_s <= 0:
        return "the cases before it took all the time"
    setting.subjects.more({child: "run"})  # it imports the candidate while the reference answers
    try:
        return _compared(setting, name, child, records, left_s)
    finally:
        setting.subjects.release(child)


def _compared(setting: Setting, name: str, child: str, records: list[CaseRecord], left_s: float) -> str:
    with with_case(setting.reference.loaded, name) as loaded:
        try:
            reference = Reference(loaded, setting.device, setting.reference.policy)
            question = Questions(reference).question(GIVEN, reference.first)
        except (*REFUSALS, MemoryError, NotCarried) as error:
            if kind_of(error) != "oom" and setting.reference.whereabouts.device_lost():
                raise JudgeError(f"the referee's GPU context broke in case {name!r}") from error
            return f"the reference cannot be run here: {type(error).__name__}"
        if not question.decides:
            return "the reference has no answer to judge by"
        try:
            _judge(setting, reference, question, name, child, records, left_s)
        except SubjectFailed as failed:
            if is_excused(setting, failed, reference, question):
                return "it is too large for this device"
            raise _in_case(of_candidate(failed, STAGE), name) from failed
        except Ended as ended:
            raise _in_case(ended, name) from ended
    return ""


def _judge(
    setting: Setting,
    reference: Reference,
    question: Question,
    name: str,
    child: str,
    records: list[CaseRecord],
    left_s: float,
) -> None:
    setting.subjects.contacts[child].deadline = Deadline(left_s, setting.assignment.payload["stage_s"])
    rounds = setting.ready(child, reference, question)
    rounds.case, rounds.records = name, records
    judge_case(rounds, question, STAGE)


def _in_case(ended: Ended, name: str) -> Ended:
    told = Ended(ended.verdict, STAGE, ended.reason, f"in case {name!r} of get_cases(): {ended.message}")
    told.subject = ended.subject
    return told
