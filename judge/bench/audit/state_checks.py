"""A fresh process asked the same and other things: equal input, replaced parameters, marked memory, inputs on one side
of zero, left-over threads.

The verdict stays the one that fits what is wrong; the reason says which of the audit's questions brought it out.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import torch

from judge.bench.audit.setting import GIVEN, STAGE, Answer, Setting, Usual, ask, other_question
from judge.bench.exchange.claims import Forwarded
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.parts import all_equal
from judge.bench.judging.asking import Question
from judge.bench.judging.completion import Ended, of_subject
from judge.bench.judging.correctness import Rounds
from judge.bench.processes.inspection import Seen
from judge.values import Verdict

REPEATS, INTERPRETED_REPEATS = 6, 1  # further calls on equal input; races need several, the interpreter has none
GRACE_S = 0.05  # a thread that is just ending
INTERPRETED_GRACE_S = 1.0  # the same where no clock runs that it could cheat: on a busy machine it takes its time
TRUSTED = "eager#audit"  # a child that runs the reference, to see which threads the driver starts late
_VALUES = (Verdict.WRONG, Verdict.NOT_FINITE)


@dataclass
class Witness:
    """The child that was asked, and what its first call told: launches, counted traffic."""

    rounds: Rounds
    question: Question
    reply: Forwarded


def examine(setting: Setting, name: str) -> Witness:
    """Ask the fresh child `name`. Raises Ended."""
    rounds, question = setting.rounds(name)
    before = setting.look(name)
    witness = Witness(rounds, question, _repeat(setting, rounds, question).reply)
    setting.usual = Usual.of(rounds, question, witness.reply)
    changed = _change_parameters(rounds)
    check_origins(witness.reply, *([changed.reply] if changed else []))
    one_sided = rounds.questions.one_sided()
    if one_sided is not None:
        ask(rounds, one_sided)
    _left_over(setting, name, before, question)
    return witness


def _repeat(setting: Setting, rounds: Rounds, question: Question) -> Answer:
    """Equal input again and again: each answer right, and the same bits."""
    times = INTERPRETED_REPEATS if setting.interprets else REPEATS
    try:
        first = ask(rounds, question, count=setting.interprets)
        differing = sum(not _same_bits(first, ask(rounds, question)) for _ in range(times))
    except Ended as ended:
        if ended.verdict not in _VALUES:
            raise
        raise Ended(
            Verdict.UNSTABLE,
            STAGE,
            "run.unstable",
            f"a fresh process was asked the same {times + 1} times and was not always right: {ended.message}",
        ) from ended
    if differing:
        setting.note(
            "run.not_bitwise",
            f"{differing} of {times} repeats on equal input differ in their last bits, within the allowed error",
            repeats=times,
            differing=differing,
        )
    return first


def _same_bits(one: Answer, other: Answer) -> bool:
    pairs = zip(one.values, other.values, strict=True)
    return all(all_equal(_bytes(left), _bytes(right)) for left, right in pairs)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def check_origins(*replies: Forwarded) -> None:
    """Raise Ended (`audit.uncounted`) for values that came from where nothing is counted."""
    found = list(dict.fromkeys(text for reply in replies for text in reply.uncounted))
    if found:
        raise Ended(
            Verdict.SUSPECT,
            STAGE,
            "audit.uncounted",
            f"{'; '.join(found[:4])}. Compute in Triton kernels, or with torch's operators on tensors",
        )


def _change_parameters(rounds: Rounds) -> Answer | None:
    """New parameters after several calls with the old ones, in marked memory."""
    question = other_question(rounds, GIVEN)
    if question is None:
        return None
    try:
        return ask(rounds, question, poison=True)
    except Ended as ended:
        if ended.verdict not in (*_VALUES, Verdict.STATE_VIOLATION):
            raise
        raise _why(rounds, ended) from ended


def _why(rounds: Rounds, ended: Ended) -> Ended:
    """Wrong because of the parameters, or of the memory? With the first parameters only the memory is left."""
    try:
        ask(rounds, rounds.questions.question(GIVEN, rounds.reference.first), poison=True)
    except Ended:
        message = f"the answer depends on what uninitialised memory holds: {ended.message}"
        return Ended(ended.verdict, STAGE, "audit.poison", message)
    return Ended(ended.verdict, STAGE, "audit.stale", f"after its parameters were replaced: {ended.message}")


def _left_over(setting: Setting, name: str, before: Seen, question: Question) -> None:
    """Threads and processes that outlive the calls could work on after a clock has stopped, or hinder a baseline.

    It helps neither to start them at import nor to name them like a driver's: those that were there before the
    candidate was loaded are known, and of later ones as many of a name as the reference's own process has, too.
    """
    after = setting.look(name)
    deadline = time.monotonic() + (INTERPRETED_GRACE_S if setting.interprets else GRACE_S)
    pause_s = GRACE_S
    while _later(after) and time.monotonic() < deadline:
        time.sleep(pause_s)
        after = setting.look(name)
        pause_s *= 2  # a few looks: the runner answers a bounded number
    found = _later(after)
    if found and setting.device != "cpu":
        found -= _drivers(setting, question)
    if found:
        raise Ended(
            Verdict.SUSPECT,
            STAGE,
            "audit.threads",
            f"after its calls had returned, {found.total()} threads or processes that it started were still alive: "
            f"{', '.join(list(found.elements())[:8])}; do all the work inside forward",
        )
    files = sorted(set(after.files) - set(before.files))
    if files:
        setting.note("audit.files", f"forward left {len(files)} files behind: {', '.join(files[:8])}", files=files[:20])


def _later(seen: Seen) -> Counter[str]:
    """Threads that started later than the candidate was loaded, and processes, by name."""
    return Counter([*seen.late, *(name or str(number) for number, name in seen.processes)])


def _drivers(setting: Setting, question: Question) -> Counter[str]:
    """What is later in a process that answers the same question with the reference."""
    setting.subjects.more({TRUSTED: "eager"})
    try:
        rounds, _ = setting.rounds(TRUSTED, question)
        rounds.ask(question)
        return _later(setting.look(TRUSTED))
    except SubjectFailed as failed:
        raise of_subject(failed, STAGE) from failed
    finally:
        setting.subjects.release(TRUSTED)
