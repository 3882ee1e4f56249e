"""Random outputs that are not the reference's own draws: asked again and again, and compared as distributions."""

from __future__ import annotations

import secrets

import torch

from judge.bench.exchange.nested import cloned, collect, encode
from judge.bench.judging.asker import Asker
from judge.bench.judging.asking import Question
from judge.bench.judging.chance import DRAWS, ByChance, Draws, difference
from judge.bench.judging.comparison import STAGE, Fault, check_structure
from judge.bench.judging.expected import Expected

COUNTED_FAMILY = "adversarial"  # beside the first round; in the others one call is looked at roughly


def eligible(expected: Expected, number: int) -> bool:
    """Whether output `number` may be met in distribution: it is drawn, and its numbers have a mean."""
    return number in expected.random and bool(expected.outputs[number].same.is_floating_point())


def check(rounds: Asker, question: Question, number: int, value: torch.Tensor) -> str:
    """Compare output `number` as a distribution; what was done, in words. Raises Ended("value.mismatch")."""
    first = not rounds.by_chance
    rounds.by_chance = True
    if not first and question.family != COUNTED_FAMILY:
        if ByChance().accepts(value, question.expected.outputs[number].same):
            return "random: share of zeros, mean and spread of one call"
        words = "one call has another share of zeros, mean or spread than the reference's"
    else:
        words = _distributions(rounds, question, number)
        if not words:
            return f"random: compared over {DRAWS} calls"
    raise rounds.failed(question, number, Fault("value.mismatch", f"the output is random, as the reference's; {words}"))


def _distributions(rounds: Asker, question: Question, number: int) -> str:
    seed = secrets.randbits(31)
    theirs: list[torch.Tensor] = []
    ours: list[torch.Tensor] = []
    for _ in range(DRAWS):
        draw = secrets.randbits(31)
        again = Question(question.family, question.inputs, question.state, draw, question.expected)
        reply, slots = rounds.ask(again)
        check_structure(reply, question.expected, STAGE)
        theirs.append(Draws.sampled(rounds.contact.take(slots.outs)[number], seed))
        outputs: list[torch.Tensor] = []
        encode(rounds.reference.run(cloned(question.inputs), question.state, draw), collect(outputs))
        ours.append(Draws.sampled(outputs[number], seed))
    source = torch.Generator().manual_seed(seed)
    return difference(Draws.of(ours), Draws.of(theirs), source)
