"""What the words of a published step amount to among our verdicts. Pure."""

from __future__ import annotations

from judge.values import Verdict
from search.interchange.recording import RecordedStep


def verdict_of_step(step: RecordedStep) -> Verdict:
    """The verdict that the published score and error text amount to; our own exports name it."""
    if step.verdict is not None:
        return step.verdict
    if step.correct:
        return Verdict.PASS
    error = step.error.lower()
    told = {
        "timeout": Verdict.TIMED_OUT,
        "syntaxerror": Verdict.BAD_SOURCE,
        "out of memory": Verdict.OUT_OF_MEMORY,
        "triton.compiler.errors": Verdict.COMPILE_FAILED,
        "outofresources": Verdict.COMPILE_FAILED,
        "incorrect output": Verdict.WRONG,
    }
    found = next((verdict for words, verdict in told.items() if words in error), None)
    return found or (Verdict.CRASHED if step.loads else Verdict.LOAD_FAILED)
