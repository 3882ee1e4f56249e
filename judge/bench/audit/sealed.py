"""Cases that no proposer has seen: other constants, a fresh reference, a fresh model. Nothing here tells what they are.

A declared case that fails ends the evaluation; a derived one only labels the kernel: it refuses other shapes
(`shape.guarded`) or gives wrong answers for them (`shape.unsafe`).
"""

from __future__ import annotations

import itertools
import secrets
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from judge.bench.audit.case_child import KEPT, CaseChild
from judge.bench.audit.excuses import is_excused
from judge.bench.audit.setting import GIVEN, STAGE, Setting, judge_case
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.nested import NotCarried
from judge.bench.foreign.faults import kind_of
from judge.bench.foreign.loading import PROBLEM, LoadError, load_problem
from judge.bench.judging.asking import Questions
from judge.bench.judging.completion import Ended, of_candidate
from judge.bench.judging.reference import REFUSALS, Reference
from judge.bench.judging.variants import applied
from judge.values import JudgeError, SealedCase, Verdict

MOST = 12
CHILD = "sealed#{}"

RIGHT, GUARDED, WRONG, LEFT_OUT = "right", "guarded", "wrong", "left out"
_REFUSES = ("exception", "compile", "resources", "load", "unsupported", "oom")  # it says itself that it cannot


def first_child(setting: Setting) -> dict[str, str]:
    """The child that is asked the cases, to be started ahead."""
    return {CHILD.format(1): "run"} if setting.sealed else {}


def check_sealed(setting: Setting) -> str:
    """Every sealed case, declared ones first; in which order otherwise nobody knows. Raises Ended."""
    if not setting.sealed:
        return "the problem has none"
    cases = list(enumerate(sorted(setting.sealed, key=lambda case: case.derived)[:MOST], 1))
    declared = sum(not case.derived for _, case in cases)
    child = CaseChild(setting, map(CHILD.format, itertools.count(1)))
    found: list[tuple[SealedCase, str]] = []
    shuffled = secrets.SystemRandom().sample(cases, len(cases))
    for number, case in sorted(shuffled, key=lambda row: row[1].derived):
        result = _ask_case(setting, child, case, number)
        found.append((case, result))
        if not case.derived and result in (GUARDED, WRONG):
            raise _declared_failed(number, declared, result)
    child.release()
    _label(setting, [(case.kind, result) for case, result in found if case.derived])
    return ", ".join(f"{sum(result == kind for _, result in found)} {kind}" for kind in _kinds(found))


def _kinds(found: list[tuple[SealedCase, str]]) -> list[str]:
    return [kind for kind in (RIGHT, GUARDED, WRONG, LEFT_OUT) if any(result == kind for _, result in found)]


def _declared_failed(number: int, declared: int, result: str) -> Ended:
    how = "raised an error" if result == GUARDED else "was wrong or gave no answer in time"
    return Ended(
        Verdict.WRONG,
        STAGE,
        "audit.sealed_case",
        f"on sealed case {number} of {declared} the candidate {how}, though it is right on the published case; "
        "take sizes and strides from the inputs, not from the published shapes",
    )


def _label(setting: Setting, results: list[tuple[str, str]]) -> None:
    """Say how many derived cases failed, and of which kinds: never which."""
    for result, code, verb in (
        (GUARDED, "shape.guarded", "refuses"),
        (WRONG, "shape.unsafe", "gives wrong answers for"),
    ):
        kinds = Counter(kind for kind, found in results if found == result)
        if kinds:
            count, told = kinds.total(), ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
            message = f"made for the published inputs: {verb} {count} of {len(results)} others ({told})"
            setting.note(code, message, cases=len(results), failed=count, kinds=dict(sorted(kinds.items())))


def _ask_case(setting: Setting, child: CaseChild, case: SealedCase, number: int) -> str:
    with _reference(setting, case, number) as reference:
        if reference is None:
            return LEFT_OUT
        try:
            return _ask(setting, child, case, reference)
        except (*REFUSALS, MemoryError, NotCarried) as error:
            _unless_broken(setting, error)
            return LEFT_OUT


def _ask(setting: Setting, child: CaseChild, case: SealedCase, reference: Reference) -> str:
    """Two rounds: as given, then other content and parameters. The candidate's own words stay here."""
    question = Questions(reference).question(GIVEN, reference.first)
    if not question.decides:
        return LEFT_OUT
    try:
        child.judged(reference, question, lambda rounds: judge_case(rounds, question, STAGE), STAGE)
    except SubjectFailed as failed:
        return _of_failure(failed, case, excused=is_excused(setting, failed, reference, question))
    except Ended as ended:
        if ended.reason == "load.died" or (ended.reason == KEPT and not case.derived):
            raise
        if ended.verdict is Verdict.DISHONEST:
            raise Ended(ended.verdict, STAGE, ended.reason, "the candidate broke the protocol") from None
        return GUARDED if ended.reason.startswith("load.") else WRONG
    return RIGHT


def _of_failure(failed: SubjectFailed, case: SealedCase, *, excused: bool) -> str:
    """`excused`: this machine may be too small for the case, or too slow."""
    if failed.kind in ("garbage", "touched"):
        ended = of_candidate(failed, STAGE)
        message = "the candidate broke the protocol" if failed.kind == "garbage" else ended.message
        raise Ended(ended.verdict, STAGE, ended.reason, message) from None
    if excused:
        return LEFT_OUT
    if failed.kind == "unsupported" and not case.derived:
        message = "for a sealed case the candidate needs what this device cannot run"
        raise Ended(Verdict.UNSUPPORTED, STAGE, "run.unsupported", message) from None
    return GUARDED if failed.kind in _REFUSES else WRONG


@contextmanager
def _reference(setting: Setting, case: SealedCase, number: int) -> Iterator[Reference | None]:
    """The reference with the case's constants, on top of the evaluated case; None where it cannot be had."""
    folder = setting.assignment.folder / f"sealed{number}"
    folder.mkdir()
    before = sys.modules.get(PROBLEM)
    try:
        yield _made(setting, case, str(folder))
    finally:
        if before is not None:
            sys.modules[PROBLEM] = before


def _made(setting: Setting, case: SealedCase, folder: str) -> Reference | None:
    payload = setting.assignment.payload
    try:
        loaded = load_problem(payload["source"], payload["case"], folder, setting.reference.whereabouts)
        under = applied(loaded, case)
        return None if under is None else Reference(under, setting.device, setting.reference.policy)
    except (*REFUSALS, MemoryError, NotCarried, LoadError) as error:
        _unless_broken(setting, error)
        return None


def _unless_broken(setting: Setting, error: BaseException) -> None:
    """A case that the reference does not take is left out; a referee without a device judges nobody."""
    if kind_of(error) != "oom" and setting.reference.whereabouts.device_lost():
        raise JudgeError("the referee's GPU context broke in a sealed case") from None
