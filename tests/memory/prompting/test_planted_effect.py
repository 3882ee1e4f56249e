"""A planted effect comes back through prompt, reply, verdict and lift; `python -m tests.load.lift` is the long form."""

from __future__ import annotations

import pytest

from memory.prompting.models import RuleUse
from search.replay.check import replay_run
from tests.llm_stub import StubLLM
from tests.load.planted import EFFECTS, asking, planted

pytestmark = pytest.mark.django_db


def test_effects_are_recovered_and_the_model_saw_what_the_rows_say():
    with StubLLM() as stub:
        run, lifts = planted(3, steps=90, stub=stub, proposer=asking(stub))
        seen = stub.answer.seen
    for name, effect in EFFECTS.items():
        lift = lifts[name]
        assert lift.low <= effect <= lift.high
        assert seen[f"Rule 3 {name}."] == lift.shown
        assert lift.shown + lift.withheld == 90
    assert RuleUse.objects.filter(node__run=run).count() == 270
    assert replay_run(run).equal
