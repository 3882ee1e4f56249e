"""Checks share a GPU, a measurement has it alone, and neither waits for ever."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

CHILD = """
import sys, time
from judge.bench.gpu_lock import GpuLock
handle = open(sys.argv[1], 'r+')
lock = GpuLock(handle.fileno())
with lock.shared():
    print('shared', flush=True)
    for line in sys.stdin:
        if line.strip() == 'alone':
            with lock.alone():
                print('alone', flush=True)
                sys.stdin.readline()
            print('again', flush=True)
        else:
            break
"""


def start(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def say(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdin is not None
    child.stdin.write(word + "\n")
    child.stdin.flush()


def hear(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def finish(*children: subprocess.Popen[str]) -> None:
    for child in children:
        child.kill()
        child.communicate()


def test_two_check_at_once_but_one_measures_after_the_other_has_left(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    one, two = start(path), start(path)
    assert (hear(one), hear(two)) == ("shared", "shared")
    say(one, "alone")
    begun = time.monotonic()
    say(two, "leave")
    assert hear(one) == "alone"
    assert two.wait(10) == 0
    assert time.monotonic() - begun < 10
    finish(one, two)


def test_two_that_both_want_it_alone_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    one, two = start(path), start(path)
    assert (hear(one), hear(two)) == ("shared", "shared")
    say(one, "alone")
    say(two, "alone")
    for child in (one, two):
        say(child, "end of turn")
        say(child, "leave")
    for child in (one, two):
        assert hear(child) == "alone"
        assert hear(child) == "again"
    finish(one, two)


def test_a_dead_holder_frees_the_gpu(tmp_path: Path) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    one = start(path)
    assert hear(one) == "shared"
    say(one, "alone")
    assert hear(one) == "alone"
    two = start(path)
    one.kill()
    assert hear(two) == "shared"
    finish(one, two)
