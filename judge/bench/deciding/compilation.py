"""Every launch compiled for the target on CPU tensors while the same question is interpreted; nothing is run."""

from __future__ import annotations

from dataclasses import dataclass

from judge.bench.compiling.report import capped
from judge.bench.exchange.claims import Forwarded
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.rows import KernelRow
from judge.bench.judging.asking import Question
from judge.bench.judging.completion import of_candidate
from judge.bench.judging.correctness import Rounds
from judge.values import Finding

COMPLETE, INCOMPLETE = "complete", "incomplete: "  # what became of the compilation beside an interpreter
INCOMPLETE_CHARS = 600


@dataclass(frozen=True)
class Compiled:
    """What a recorder launched: `codes` with the names of the kernels; `said`: whether that is all; `choices`: what
    autotuners must take, since their first configuration does not fit."""

    said: str
    kernels: tuple[KernelRow, ...] = ()
    codes: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    choices: tuple[dict[str, str], ...] = ()

    @property
    def missing(self) -> str:
        """What kept it from being complete, "" where nothing did."""
        return self.said.removeprefix(COMPLETE).removeprefix(INCOMPLETE)


def compiled(recorder: Rounds, question: Question) -> Compiled:
    """Ask it. Raises Ended for what the compiler refuses."""
    try:
        reply, _ = recorder.ask(question)
    except SubjectFailed as failed:
        if failed.reason == "compile.incomplete" or failed.kind in ("exception", "bounds", "unsupported"):
            return Compiled(f"{INCOMPLETE}{failed.message[:INCOMPLETE_CHARS]}")
        raise of_candidate(failed, "compile") from failed
    return Compiled(
        "; ".join(reply.notes) or COMPLETE,
        reply.kernels,
        tuple(dict(reply.codes).items()),
        tuple(capped(reply.tuned)),
        _choices(reply),
    )


def _choices(reply: Forwarded) -> tuple[dict[str, str], ...]:
    return tuple(
        {"kernel": row.kernel, "key": row.key, "config": row.chosen}
        for row in reply.tuned
        if row.chosen not in ("", row.first)
    )
