"""The compile stage of the interpreter: the recorder works while the first question is interpreted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from judge.bench.compiling.report import capped
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.judging.completion import of_candidate
from judge.bench.judging.correctness import Question, Rounds, Slots
from judge.values import Finding


@dataclass(frozen=True)
class Beside:
    """`words` tell how it went. `choices`: what autotuners must take, since their first configuration does not fit."""

    words: str
    kernels: list[dict[str, Any]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    choices: list[dict[str, str]] = field(default_factory=list)


def compiled_beside(recorder: Rounds, first: Question) -> Beside:
    """Every launch compiled for the target on CPU tensors; the recorder runs nothing. Raises Ended."""
    try:
        recorder.tell(first)
        reply = recorder.contact.answer()
    except SubjectFailed as failed:
        if failed.reason == "compile.incomplete" or failed.kind in ("exception", "bounds", "unsupported"):
            return Beside(f"incomplete: {failed.message[:600]}")
        raise of_candidate(failed, "compile") from failed
    tuned = reply.get("tuned", [])
    choices = [
        {"kernel": row["kernel"], "key": row["key"], "config": row["chosen"]}
        for row in tuned
        if row["chosen"] not in ("", row["first"])
    ]
    words = "; ".join(str(note) for note in reply.get("notes", [])) or "complete"
    return Beside(words, [dict(row) for row in reply.get("kernels", [])], capped(tuned), choices)


def ask_again(rounds: Rounds, first: Question, choices: list[dict[str, str]], *, count: bool) -> Slots:
    """Ask the first question of autotuners that take what fits; what was interpreted meanwhile could not run."""
    rounds.contact.answer()
    rounds.contact.ask("choose", choices=choices)
    return rounds.tell(first, count=count)
