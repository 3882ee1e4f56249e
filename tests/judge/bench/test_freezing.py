"""A child that is to be stopped: at once, later where it holds the lock of the GPU, or ended where it never lets go."""

from __future__ import annotations

import os
import signal
import subprocess
from types import SimpleNamespace

import pytest

from judge.bench.processes import zygote
from judge.bench.processes.zygote import FREEZE_TRIES, Zygote

CHILD = 7


class Holding(Zygote):
    """A server whose child holds the GPU's lock the first times that this is looked at."""

    def __init__(self, pid: int, times: int) -> None:
        super().__init__(None, SimpleNamespace(gpu_lock=None), {})
        self.pids[CHILD], self.times, self.looks = pid, times, 0

    def _holds_gpu(self, pid: int) -> bool:
        self.looks += 1
        return self.looks <= self.times

    def freeze(self) -> None:
        self._obey({"op": "freeze", "id": CHILD, "after_s": 0.0})
        while self.freezing:
            self._freeze()


@pytest.fixture
def pid():
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize("times", [0, 3, FREEZE_TRIES])
def test_a_child_is_stopped_once_it_does_not_hold_the_gpu_and_goes_on_when_it_is_told(monkeypatch, pid, times):
    monkeypatch.setattr(zygote, "FREEZE_AGAIN_S", 0.0)
    server = Holding(pid, times)
    server.freeze()
    assert server.looks == times + 1 and not server.ended
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
    server._obey({"op": "thaw", "id": CHILD})
    assert os.WIFCONTINUED(os.waitpid(pid, os.WCONTINUED)[1])


def test_a_child_that_never_lets_go_of_the_gpu_is_ended(monkeypatch, pid):
    monkeypatch.setattr(zygote, "FREEZE_AGAIN_S", 0.0)
    server = Holding(pid, FREEZE_TRIES + 1)
    server.freeze()
    assert server.looks == FREEZE_TRIES + 1 and server.ended == {CHILD}
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


def test_what_has_gone_meanwhile_is_forgotten(pid):
    server = Holding(pid, 0)
    server._obey({"op": "freeze", "id": CHILD, "after_s": 60.0})
    assert 59_000 < server._next_ms() <= 60_000
    del server.pids[CHILD]
    server._freeze()
    assert server.freezing == {} and server._next_ms() is None and server.looks == 0
