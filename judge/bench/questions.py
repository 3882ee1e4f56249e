"""The questions a candidate would be asked, with their right answers: what null candidates are held against."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from judge.bench.expected import Expected, expect
from judge.bench.families import FAMILIES
from judge.bench.loading import LoadedProblem
from judge.bench.reference import REFUSALS, Reference
from judge.values import Policy


def questions(loaded: LoadedProblem, device: str, policy: Policy, *, few: bool) -> Iterator[tuple[list[Any], Expected]]:
    """(inputs, right answer) of every family that has one; parameters are as constructed first, then drawn anew.

    `few` stops after two, for references that are slow.
    """
    reference = Reference(loaded, device, policy)
    state, told = reference.first, 0
    for family in FAMILIES:
        if told == 1:
            state = reference.redrawn()
        try:
            inputs = reference.inputs(family, secrets.randbits(62))
            expected = expect(reference, inputs, state, secrets.randbits(31))
        except REFUSALS:
            continue  # content that the reference was not made for
        if expected.finite:
            yield inputs, expected
            told += 1
        if few and told == 2:
            return
