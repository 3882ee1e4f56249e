"""Children of an audit that fail before they did anything are the judge's own affair."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from judge.bench.audit.setting import Setting
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.judging.completion import Ended
from judge.values import DEFAULT_POLICY, Verdict


def setting(failure: SubjectFailed) -> Setting:
    """A setting whose children fail as told when they are introduced."""

    def introduce(name, reference, question):
        raise failure

    payload = {"basis": "measured", "sealed": [], "defined": {}, "reaches": []}
    assignment = SimpleNamespace(payload=payload, device="cpu")
    return Setting(
        assignment, SimpleNamespace(introduce=introduce), SimpleNamespace(policy=DEFAULT_POLICY), [], candidate_us=None
    )


def test_how_a_child_ended_before_its_import_is_for_the_runner_to_say():
    """Without a context it has not begun; with one, the candidate left where it saw that it is looked at."""
    died = SubjectFailed("audit", "died", "load", "it ended without an answer")
    with pytest.raises(Ended) as caught:
        setting(died).ready("audit", None, None)
    ended = caught.value
    assert (ended.verdict, ended.stage, ended.reason, ended.subject) == (
        Verdict.CRASHED, "audit", "load.died", "audit",
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "doing"), [("died", "construct"), ("timeout", "load"), ("load", "load")])
def test_any_other_failure_is_the_candidates(kind, doing):
    failed = SubjectFailed("audit", kind, doing, "")
    with pytest.raises(SubjectFailed) as caught:
        setting(failed).ready("audit", None, None)
    assert caught.value is failed
