"""Who asks: what the checks behind a wrong or doubtful answer need of the rounds they belong to."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch

from judge.bench.exchange.arenas import Slot
from judge.bench.exchange.contact import Contact
from judge.bench.exchange.wire import Message
from judge.bench.judging.asking import Question
from judge.bench.judging.comparison import Fault
from judge.bench.judging.endings import Ended
from judge.bench.judging.fitting import Fit
from judge.bench.judging.reference import Reference, State
from judge.values import CaseRecord, Finding


class Slots(NamedTuple):
    """Where one question lies in the arena; `kept` takes what forward leaves in parameters and buffers."""

    ins: list[Slot]
    outs: list[Slot]
    kept: dict[str, Slot]


class Asker(Protocol):
    """One subject's rounds."""

    reference: Reference
    contact: Contact
    fit: Fit
    case: str
    repeats: int
    records: list[CaseRecord]
    findings: list[Finding]
    by_chance: bool  # its outputs are random and not the reference's draws: compared as distributions
    values: list[torch.Tensor]  # outputs of the answer judged last

    def question(self, family: str, state: State, seed: int | None = None) -> Question:
        """Fresh inputs of `family` with the right answer."""

    def ask(self, question: Question, *, poison: bool = False) -> tuple[Message, Slots]:
        """One call and its answer. Raises SubjectFailed."""

    def check_bands(self, slots: Slots) -> None:
        """Nothing beside a slot may have been written to. Raises Ended."""

    def failed(self, question: Question, number: int, fault: Fault) -> Ended:
        """The ending for a wrong output, recorded as a round."""
