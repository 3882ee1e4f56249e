"""The referee gets further children while it works: started, refused and counted by the runner."""

from __future__ import annotations

import os
import socket

import pytest

from judge.bench.exchange.wire import Channel, WireTimeout
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.subject_starter import MOST, MOST_REQUESTS, SubjectStarter, ask_for
from judge.values import Job, JudgeError, Limits, ProblemSpec
from tests.judge.bench_problems import PROBLEM, SAME

pytestmark = pytest.mark.bench

LIMITS = Limits(wall_s=30, stage_s=10)


class StarterCase:
    """SubjectStarter with a group of their own; `ask` is the referee's side, served in between."""

    def __init__(self, bench, group, incumbent=None):
        self.group = group
        self.starter = SubjectStarter(
            bench, Job("test", ProblemSpec(PROBLEM), SAME, limits=LIMITS, incumbent=incumbent)
        )
        self.runner, theirs = Channel.pair()
        self.referee = Channel(theirs)

    def ask(self, wanted):
        self.starter.provide(self.group, wanted, self.runner)  # the answer waits in the channel
        return ask_for(self.referee, wanted, 5)


@pytest.fixture
def bench_with_subjects(cpu_bench):
    cpu_bench.facts()
    with ChildGroup(LIMITS) as group:
        bench_with_subjects = StarterCase(cpu_bench, group, incumbent=SAME)
        yield bench_with_subjects
        bench_with_subjects.runner.close()
        bench_with_subjects.referee.close()


def first_words(fd):
    link = Channel(socket.socket(fileno=fd))
    words = [link.receive(20), link.receive(20)]
    link.close()
    return [[name for name in word if name != "number"] for word in words]


def test_further_children_load_their_sources_at_once(bench_with_subjects):
    links = bench_with_subjects.ask({"candidate#2": "run", "eager#2": "eager", "incumbent": "incumbent"})
    assert all(first_words(fd) == [["started"], ["loaded"]] for fd in links.values())
    assert list(bench_with_subjects.group.members) == list(links)


def test_an_answer_that_does_not_come_in_time_is_a_fault_of_the_judge():
    runner, theirs = Channel.pair()
    referee = Channel(theirs)
    with pytest.raises(JudgeError, match="no further children within"):
        ask_for(referee, {"candidate#2": "run"}, 0.05)
    runner.close()
    referee.close()


def test_each_child_is_a_process_of_its_own(bench_with_subjects):
    for fd in bench_with_subjects.ask({"candidate#2": "run", "candidate#3": "run"}).values():
        first_words(fd)
    bench_with_subjects.group.ended("candidate#3", 5)
    assert len({child.pid for child in bench_with_subjects.group.members.values()}) == 2


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"candidate#2": "admit"}, "unknown mode"),
        ({"": "run"}, "no name"),
        ({f"candidate#{number}": "run" for number in range(MOST + 1)}, "more than"),
    ],
)
def test_what_cannot_be_had_is_refused_whole(bench_with_subjects, wanted, why):
    with pytest.raises(JudgeError, match=why):
        bench_with_subjects.ask(wanted)
    assert bench_with_subjects.group.members == {}


def test_a_taken_name_is_refused_and_the_rest_with_it(bench_with_subjects):
    for fd in bench_with_subjects.ask({"candidate#2": "run"}).values():
        os.close(fd)
    with pytest.raises(JudgeError, match="taken"):
        bench_with_subjects.ask({"candidate#3": "run", "candidate#2": "run"})
    assert list(bench_with_subjects.group.members) == ["candidate#2"]


def test_without_an_incumbent_none_can_be_asked_for(cpu_bench):
    with ChildGroup(LIMITS) as group, pytest.raises(JudgeError, match="no incumbent"):
        StarterCase(cpu_bench, group).ask({"incumbent": "incumbent"})


def test_one_evaluation_has_a_bounded_number_of_requests(bench_with_subjects):
    for _ in range(MOST_REQUESTS):
        bench_with_subjects.starter.provide(bench_with_subjects.group, {}, bench_with_subjects.runner)
        bench_with_subjects.referee.receive(1)
    bench_with_subjects.starter.provide(bench_with_subjects.group, {"candidate#2": "run"}, bench_with_subjects.runner)
    with pytest.raises(WireTimeout):
        bench_with_subjects.referee.receive(0.05)
    assert bench_with_subjects.group.members == {}


def test_children_that_are_hung_up_on_end_by_themselves(bench_with_subjects):
    for fd in bench_with_subjects.ask({"candidate#2": "run"}).values():
        first_words(fd)
    child = bench_with_subjects.group.ended("candidate#2", 10)
    assert child is not None
    child.drain(1 << 16)
    assert child.ending() == "exited with status 0", child.tail()
