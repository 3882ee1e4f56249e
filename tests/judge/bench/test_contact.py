"""The referee's end of a subject: what every kind of silence means."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from judge.bench.exchange import contact as contact_room
from judge.bench.exchange.claims import BurstDone, Forwarded, Loaded
from judge.bench.exchange.contact import Contact, Deadline, SubjectFailed
from judge.bench.exchange.wire import MAX_MESSAGE, Channel
from judge.bench.judging.completion import Ended, of_baseline, of_candidate
from judge.values import JudgeError, Verdict
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


def test_a_process_that_is_late_to_start_costs_no_time_of_its_import(ends, monkeypatch):
    contact, theirs = ends
    subject = Channel(theirs)

    def later() -> None:
        time.sleep(0.3)  # three times what a step may take
        subject.send({"started": True, "number": ""})
        subject.send({"loaded": True, "number": ""})

    thread = threading.Thread(target=later)
    thread.start()
    assert contact.load() == Loaded()
    thread.join()
    assert contact.deadline.stage() == pytest.approx(0.1)


def test_an_import_has_the_time_of_a_step(ends):
    Channel(ends[1]).send({"started": True, "number": ""})
    with pytest.raises(SubjectFailed) as caught:
        ends[0].load()
    assert (caught.value.kind, caught.value.doing) == ("timeout", "load")


def test_a_process_that_does_not_start_is_nobodys_fault_and_one_that_ends_has_died(ends, monkeypatch):
    monkeypatch.setattr(contact_room, "START_S", 0.01)
    with pytest.raises(JudgeError, match="candidate child was not ready"):
        ends[0].load()
    ends[1].close()
    with pytest.raises(SubjectFailed) as caught:
        ends[0].load()
    assert (caught.value.kind, caught.value.doing) == ("died", "load")
