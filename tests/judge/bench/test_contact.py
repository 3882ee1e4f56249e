"""The referee's end of a subject: what every kind of silence means."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from judge.bench.exchange.claims import BurstDone, Forwarded
from judge.bench.exchange.contact import Contact, Deadline, SubjectFailed
from judge.bench.exchange.wire import MAX_MESSAGE, Channel
from judge.bench.judging.completion import Ended, of_baseline, of_candidate
from judge.values import Verdict
from tests.judge.replies import counted


@pytest.fixture
def ends() -> Iterator[tuple[Contact, socket.socket]]:
    mine, theirs = socket.socketpair()
    contact = Contact("candidate", mine.detach(), Deadline(10.0, 0.1), "cpu")
    yield contact, theirs
    contact.hang_up()
    theirs.close()


def failure(contact: Contact, text: str) -> SubjectFailed:
    with pytest.raises(SubjectFailed) as caught:
        contact.tell(Forwarded, args=text)
    return caught.value


def test_a_subject_that_does_not_read_is_late_and_not_dead(ends):
    failed = failure(ends[0], "x" * (4 << 20))
    assert failed.kind == "timeout"
    assert of_candidate(failed, "smoke").verdict is Verdict.TIMED_OUT


def test_a_subject_that_is_gone_has_died(ends):
    ends[1].close()
    assert failure(ends[0], "x").kind == "died"


def test_arguments_that_no_message_holds_are_the_problems_fault(ends):
    failed = failure(ends[0], "x" * MAX_MESSAGE)
    for ended in (of_candidate(failed, "smoke"), of_baseline(failed)):
        assert isinstance(ended, Ended)
        assert (ended.verdict, ended.reason) == (Verdict.REFUSED_PROBLEM, "problem.unsupported")


def test_an_answer_is_taken_for_the_question_asked_last_and_for_no_other(ends):
    contact, theirs = ends
    subject = Channel(theirs)
    contact.tell(BurstDone)
    asked = subject.receive(1)
    subject.send({"done": 1, "number": asked["number"]})
    assert contact.answer(BurstDone) == BurstDone()
    subject.send({"done": 1, "number": asked["number"]})  # for the next question, which has not been asked yet
    contact.tell(BurstDone)
    with pytest.raises(SubjectFailed) as caught:
        contact.answer(BurstDone)
    assert of_candidate(caught.value, "timing").reason == "tamper.channel"


ANSWER = {"template": {"list": []}, "metas": [], "stored": True}


def test_launches_are_counted_as_they_were_told_on_the_way_to_the_answer(
    ends: tuple[Contact, socket.socket],
) -> None:
    contact, subject = ends[0], Channel(ends[1])
    contact.tell(Forwarded, count=True)
    number = subject.receive(1)["number"]
    for name in ("a", "b"):
        subject.send({"counted": vars(counted(name))})
    subject.send({**ANSWER, "number": number, "traffic": [vars(counted("smaller"))]})
    assert [row.name for row in contact.answer(Forwarded).traffic or ()] == ["a", "b"]


@pytest.mark.parametrize("count", [False, True])
def test_more_counts_than_were_asked_for_are_no_answer(
    ends: tuple[Contact, socket.socket], monkeypatch: pytest.MonkeyPatch, count: bool
) -> None:
    monkeypatch.setattr("judge.bench.exchange.contact.MOST_ROWS", 3)
    contact, subject = ends[0], Channel(ends[1])
    contact.tell(Forwarded, count=count)
    for _ in range(4):
        subject.send({"counted": {}})
    with pytest.raises(SubjectFailed) as caught:
        contact.answer(Forwarded)
    assert of_candidate(caught.value, "smoke").reason == "tamper.channel"


def test_a_question_is_out_until_it_is_answered_or_nobody_will(ends):
    contact, theirs = ends
    passed = []
    contact.lock.let_pass = lambda: passed.append(contact.lock.asked)
    subject = Channel(theirs)
    for _ in range(2):
        contact.tell(BurstDone)
        assert contact.lock.asked == 1
        subject.send({"done": 1, "number": subject.receive(1)["number"]})
        contact.answer(BurstDone)
        assert contact.lock.asked == 0
    assert passed == [0, 0], "others may pass before every question"
    contact.tell(BurstDone)
    with pytest.raises(SubjectFailed):
        contact.answer(BurstDone)
    assert contact.lock.asked == 0
    contact.tell(BurstDone)
    contact.hang_up()
    assert contact.lock.asked == 0
