"""Failures of one cause stand together in the cockpit, whatever names and numbers their messages hold."""

from __future__ import annotations

import pytest

from judge.evaluations.models import Evaluation
from search.live.panels import causes_of
from search.records.facts import fingerprint_of
from search.records.models import Run
from tests.search.live_rows import grow
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db


def failed(run: Run, message: str) -> None:
    grow(run, speedup=None)
    node = run.nodes.order_by("-number").first()
    assert node is not None and node.evaluation is not None
    Evaluation.objects.filter(pk=node.evaluation.pk).update(message=message)
    node.evaluation.message = message
    node.fingerprint = fingerprint_of(node.evaluation, "", "")
    node.save(update_fields=["fingerprint"])


def test_two_causes_of_three_failures() -> None:
    run = make_run()
    for message in ("name 'x_ptr' is not defined", "name 'y_ptr' is not defined", "shapes (2, 3) and (4,) differ"):
        failed(run, message)
    causes = causes_of(run, failed=3)
    assert [(cause.count, cause.percent) for cause in causes] == [(2, 67), (1, 33)]
    assert causes[0].example == "name … is not defined"


def test_a_pass_has_no_fingerprint() -> None:
    run = make_run()
    grow(run, speedup=2.0)
    assert causes_of(run, failed=0) == []


def test_a_reply_without_a_kernel_is_a_cause_too() -> None:
    assert fingerprint_of(None, "proposal.no_code", "no block") != fingerprint_of(None, "proposal.huge", "no block")
