"""What the runner sees of a child is its own: threads, processes and files, whatever the child says."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from judge.bench.exchange.wire import Channel, WireTimeout
from judge.bench.processes.children import Child
from judge.bench.processes.inspection import MOST_LOOKS, Inspector, Seen, look, look_at, threads_in
from judge.values import JudgeError


@pytest.fixture
def said():
    """What the child says, and where the runner hears it."""
    boss, theirs = Channel.pair()
    yield boss, Channel(theirs)
    boss.close()
    theirs.close()


@pytest.fixture
def child(tmp_path, said):
    return Child(1, None, tmp_path, said[0], -1, pid=os.getpid())


def seen(child) -> Seen:
    return Seen.from_json(look_at(child))


def test_a_thread_is_seen_while_it_lives(child):
    before, ends = seen(child), threading.Event()
    thread = threading.Thread(target=ends.wait)
    thread.start()
    during = seen(child)
    ends.set()
    thread.join()
    assert len(during.threads) == len(before.threads) + 1


def test_a_thread_is_late_unless_the_child_told_of_it_before_it_saw_foreign_code(child, said):
    ends = threading.Event()
    threads = [threading.Thread(target=ends.wait) for _ in range(2)]
    threads[0].start()
    said[1].send({"sandbox": {}})
    said[1].send({"threads": threads_in()})
    threads[1].start()
    said[1].send({"threads": threads_in()})  # a candidate that found the channel
    try:
        assert [*seen(child).late] == [*seen(child).late] == [Path("/proc/self/comm").read_text().strip()]
        assert len(seen(child).threads) >= 3
    finally:
        ends.set()
        [thread.join() for thread in threads]


def test_a_thread_that_got_the_id_of_an_earlier_one_is_late(child, said):
    number, started, name = threads_in()[0]
    said[1].send({"sandbox": {}})
    said[1].send({"threads": [(number, started - 1, name)]})
    assert name in seen(child).late


def test_a_process_of_the_childs_session_is_seen(tmp_path, said):
    code = (
        "import subprocess, sys; p = subprocess.Popen(['sleep', '20']); print(flush=True); sys.stdin.read(); p.kill()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        found = seen(Child(1, None, tmp_path, said[0], -1, pid=leader.pid))
        leader.communicate()
    assert [name for _, name in found.processes] == ["sleep"]
    assert [number for number, _ in found.threads] == [leader.pid]


def test_files_are_seen_but_for_caches_and_our_own(child):
    for name in ("candidate.py", "triton/x.cubin", "inductor/a/b.py", "tmp/mine.bin", "notes.txt", "home/triton/y"):
        path = Path(child.folder / name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert seen(child).files == ("home/triton/y", "notes.txt", "tmp/mine.bin")


def test_one_that_has_ended_has_no_threads(child):
    child.status = 0
    assert seen(child).threads == ()


def test_looks_are_answered_on_the_private_channel_and_bounded(child):
    runner, theirs = Channel.pair()
    referee, inspector = Channel(theirs), Inspector()
    inspector.answer({"audit": child}, "audit", runner)
    assert look(referee, "audit", 1).threads
    inspector.answer({"audit": child}, "other", runner)
    with pytest.raises(JudgeError, match="did not say"):
        look(referee, "nobody", 1)
    answers = 0
    for _ in range(MOST_LOOKS):
        inspector.answer({}, "nobody", runner)
        with suppress(WireTimeout):
            referee.receive(0.05)
            answers += 1
    assert answers == MOST_LOOKS - 2
    runner.close()
    referee.close()
