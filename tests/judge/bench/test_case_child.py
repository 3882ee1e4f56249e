"""One child answers several cases; what fails there after others is asked again in a fresh one, which decides."""

from __future__ import annotations

from typing import Any

import pytest

from judge.bench.audit.case_child import KEPT, CaseChild
from judge.bench.exchange.contact import Deadline, SubjectFailed
from judge.bench.judging.completion import Ended
from judge.values import Verdict

WRONG = Ended(Verdict.WRONG, "correctness", "value.mismatch", "output 0")
DISHONEST = Ended(Verdict.DISHONEST, "correctness", "tamper.harness", "")


def failed(kind: str) -> SubjectFailed:
    return SubjectFailed("case#1", kind, "forward", "")


class Setting:
    """Starts children; `ends` says how each case ends in which child."""

    def __init__(self, **ends: Exception) -> None:
        self.ends, self.said = ends, []
        self.contacts: dict[str, Any] = {}
        self.subjects = self

    def want(self, wanted: dict[str, str]) -> None:
        for name, mode in wanted.items():
            if name not in self.contacts:
                self.said.append(f"start {name} {mode}")
                self.contacts[name] = type("Contact", (), {"deadline": None})()

    def release(self, name: str) -> None:
        self.said.append(f"release {name}")
        del self.contacts[name]

    def ready(self, name: str, reference: object, question: str) -> str:
        return f"{question}{name[-1]}"


def judged(setting: Any, *cases: str, left: Any = None) -> list[str]:
    child = CaseChild(setting, (f"case#{n}" for n in range(1, 9)), left)

    def judge(place: str) -> str:
        setting.said.append(place)
        if place in setting.ends:
            raise setting.ends[place]
        return place

    return [child.judged(None, name, judge, "correctness") for name in cases]  # type: ignore[arg-type]


def test_one_child_answers_all_cases() -> None:
    setting = Setting()
    assert judged(setting, "a", "b", "c") == ["a1", "b1", "c1"]
    assert setting.said == ["start case#1 run", "a1", "b1", "c1"]


def test_a_child_that_was_started_ahead_is_used_and_each_case_has_its_time() -> None:
    setting, deadlines = Setting(), [Deadline(9, n) for n in (1, 2)]
    setting.want({"case#1": "run"})
    times = iter(deadlines)
    judged(setting, "a", "b", left=lambda: next(times))
    assert setting.said == ["start case#1 run", "a1", "b1"]
    assert setting.contacts["case#1"].deadline is deadlines[1]


@pytest.mark.parametrize("fault", [WRONG, failed("exception"), failed("died")])
def test_the_first_case_of_a_child_needs_no_second_opinion(fault: Exception) -> None:
    setting = Setting(a1=fault)
    with pytest.raises(type(fault)) as caught:
        judged(setting, "a")
    assert caught.value is fault and setting.said == ["start case#1 run", "a1", "release case#1"]


@pytest.mark.parametrize("fault", [WRONG, failed("exception"), failed("died"), failed("oom")])
def test_what_fails_in_a_fresh_child_too_fails_by_its_own(fault: Exception) -> None:
    own = failed("bounds")
    setting = Setting(b1=fault, b2=own)
    with pytest.raises(SubjectFailed) as caught:
        judged(setting, "a", "b")
    assert caught.value is own
    assert setting.said[2:] == ["b1", "release case#1", "start case#2 run", "b2", "release case#2"]


@pytest.mark.parametrize("fault", [WRONG, failed("exception"), failed("bounds")])
def test_who_is_right_in_a_fresh_child_alone_keeps_something_of_one_case_for_the_next(fault: Exception) -> None:
    with pytest.raises(Ended) as caught:
        judged(Setting(b1=fault), "a", "b")
    assert (caught.value.verdict, caught.value.reason, caught.value.stage) == (
        Verdict.STATE_VIOLATION, KEPT, "correctness",
    )  # fmt: skip
    assert "output 0" not in caught.value.message, "it may be of a case that nobody knows"


@pytest.mark.parametrize("kind", ["oom", "died"])
def test_limits_of_a_process_that_earlier_cases_used_up_are_no_fault(kind: str) -> None:
    setting = Setting(b1=failed(kind))
    assert judged(setting, "a", "b", "c") == ["a1", "b2", "c2"]


@pytest.mark.parametrize("fault", [DISHONEST, failed("touched"), failed("garbage"), failed("timeout")])
def test_who_tampers_or_is_late_in_any_case_gets_no_other_try(fault: Exception) -> None:
    setting = Setting(b1=fault)
    with pytest.raises(type(fault)) as caught:
        judged(setting, "a", "b")
    assert caught.value is fault and setting.said[-1] == "release case#1"


def test_without_time_for_a_second_opinion_the_first_one_counts() -> None:
    with pytest.raises(Ended) as caught:
        judged(Setting(b1=WRONG, b2=failed("timeout")), "a", "b")
    assert caught.value is WRONG
