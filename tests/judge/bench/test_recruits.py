"""The referee gets further children while it works: started, refused and counted by the runner."""

from __future__ import annotations

import os
import socket

import pytest

from judge.bench.exchange.wire import Channel, WireTimeout
from judge.bench.processes.crew import Crew
from judge.bench.processes.recruits import MOST, MOST_REQUESTS, Recruits, ask_for
from judge.values import Job, JudgeError, Limits, ProblemSpec
from tests.judge.bench_problems import PROBLEM, SAME

pytestmark = pytest.mark.bench

LIMITS = Limits(wall_s=30, stage_s=10)


class Desk:
    """Recruits with a crew of their own; `ask` is the referee's side, served in between."""

    def __init__(self, bench, crew, incumbent=None):
        self.crew = crew
        self.recruits = Recruits(bench, Job("test", ProblemSpec(PROBLEM), SAME, limits=LIMITS, incumbent=incumbent))
        self.runner, theirs = Channel.pair()
        self.referee = Channel(theirs)

    def ask(self, wanted):
        self.recruits.provide(self.crew, wanted, self.runner)  # the answer waits in the channel
        return ask_for(self.referee, wanted, 5)


@pytest.fixture
def desk(cpu_bench):
    cpu_bench.facts()
    with Crew(LIMITS) as crew:
        desk = Desk(cpu_bench, crew, incumbent=SAME)
        yield desk
        desk.runner.close()
        desk.referee.close()


def first_word(fd):
    link = Channel(socket.socket(fileno=fd))
    word = link.receive(20)
    link.close()
    return word


def test_further_children_load_their_sources_at_once(desk):
    links = desk.ask({"candidate#2": "run", "eager#2": "eager", "incumbent": "incumbent"})
    assert all(first_word(fd)["loaded"] for fd in links.values())
    assert list(desk.crew.members) == list(links)


def test_each_child_is_a_process_of_its_own(desk):
    for fd in desk.ask({"candidate#2": "run", "candidate#3": "run"}).values():
        first_word(fd)
    desk.crew.ended("candidate#3", 5)
    assert len({child.pid for child in desk.crew.members.values()}) == 2


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"candidate#2": "admit"}, "unknown mode"),
        ({"candidate#2": ["run"]}, "unknown mode"),
        ({"": "run"}, "no name"),
        ({"x" * 41: "run"}, "no name"),
        ({}, "no list"),
        ({f"candidate#{number}": "run" for number in range(MOST + 1)}, "more than"),
    ],
)
def test_what_cannot_be_had_is_refused_whole(desk, wanted, why):
    with pytest.raises(JudgeError, match=why):
        desk.ask(wanted)
    assert desk.crew.members == {}


def test_a_taken_name_is_refused_and_the_rest_with_it(desk):
    for fd in desk.ask({"candidate#2": "run"}).values():
        os.close(fd)
    with pytest.raises(JudgeError, match="taken"):
        desk.ask({"candidate#3": "run", "candidate#2": "run"})
    assert list(desk.crew.members) == ["candidate#2"]


def test_without_an_incumbent_none_can_be_asked_for(cpu_bench):
    with Crew(LIMITS) as crew, pytest.raises(JudgeError, match="no incumbent"):
        Desk(cpu_bench, crew).ask({"incumbent": "incumbent"})


def test_one_evaluation_has_a_bounded_number_of_requests(desk):
    for _ in range(MOST_REQUESTS):
        desk.recruits.provide(desk.crew, {}, desk.runner)
        desk.referee.receive(1)
    desk.recruits.provide(desk.crew, {"candidate#2": "run"}, desk.runner)
    with pytest.raises(WireTimeout):
        desk.referee.receive(0.05)
    assert desk.crew.members == {}


def test_children_that_are_hung_up_on_end_by_themselves(desk):
    for fd in desk.ask({"candidate#2": "run"}).values():
        first_word(fd)
    child = desk.crew.ended("candidate#2", 10)
    assert child is not None
    child.drain(1 << 16)
    assert child.ending() == "exited with status 0", child.tail()
