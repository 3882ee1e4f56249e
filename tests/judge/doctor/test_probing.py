"""How the doctor watches a child die with its fork server, and hears what a probe says."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from judge.doctor import probing
from judge.values import JudgeError


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


def server_of(child: subprocess.Popen[bytes], server: subprocess.Popen[bytes] | None) -> SimpleNamespace:
    """A fork server whose one child is another process, which has reported its layers."""
    boss = SimpleNamespace(receive=lambda timeout: {"sandbox": {}})
    released: list[bool] = []
    row = SimpleNamespace(pid=child.pid, boss=boss, release=lambda: released.append(True))
    given: list[dict[str, object]] = []
    return SimpleNamespace(
        process=server, spawn=lambda **order: given.append(order) or row, pump=lambda: None, released=released,
        given=given,
    )  # fmt: skip


def test_a_child_that_lives_on_is_seen_and_killed(monkeypatch) -> None:
    monkeypatch.setattr(probing, "DEATH_S", 0.05)
    child, own = sleeper(), sleeper()
    server = server_of(child, own)
    assert probing._outlived(server) is None
    assert (child.wait(10), own.wait(10), server.released) == (-9, -9, [True])
    assert server.given[0]["sandbox"] is True, "the layer is that of a child in its sandbox"


def test_a_child_that_dies_with_its_server_is_gone_at_once() -> None:
    child, own = sleeper(), sleeper()
    child.kill()  # as the kernel does; it stays a zombie until it is waited for
    server = server_of(child, own)
    seconds = probing._outlived(server)
    assert seconds is not None and server.released == [True]
    assert (child.wait(10), own.wait(10)) == (-9, -9)


def test_a_branch_of_another_server_is_not_killed_for_that() -> None:
    with pytest.raises(JudgeError, match="of its own"):
        probing._outlived(SimpleNamespace(process=None))


def test_a_zombie_and_a_process_that_is_gone_do_not_live() -> None:
    child = sleeper()
    assert probing._lives(child.pid)
    child.kill()
    while probing._lives(child.pid):
        pass
    child.wait(10)
    assert not probing._lives(child.pid)


class Group:
    """A child group whose one member says `messages` and then ends, or stays silent."""

    def __init__(self, messages: list[dict[str, object]], *, ends: bool) -> None:
        self.messages, self.ends, self.assigned = messages, ends, []
        self.child = SimpleNamespace(ending=lambda: "exited with status 1", tail=lambda: "last words")

    def start(self, name: str, server: object) -> SimpleNamespace:
        return self.child

    def assign(self, name: str, payload: dict[str, object], links: list[object]) -> None:
        self.assigned.append((name, payload, links))

    def ended(self, name: str) -> SimpleNamespace | None:
        return self.child if self.ends and len(self.messages) <= 1 else None

    def step(self, timeout: float, name: str) -> list[dict[str, object]]:
        return [self.messages.pop(0)] if self.messages else []


def test_a_probe_is_heard_message_by_message_also_when_it_ends_with_the_last() -> None:
    group = Group([{"sandbox": {"seccomp": "active"}}, {"doing": "x"}, {"probe": {"bpf": "EPERM"}}], ends=True)
    member = probing._Member(group, "probe", object(), {"part": "attempts"})
    assert group.assigned == [("probe", {"role": "probe", "part": "attempts"}, [])]
    assert member.heard("probe") == {"bpf": "EPERM"} and member.heard("sandbox") == {"seccomp": "active"}


@pytest.mark.parametrize("ends", [True, False])
def test_a_probe_that_says_nothing_is_a_fault_of_the_judge(monkeypatch, ends) -> None:
    monkeypatch.setattr(probing, "PROBE_S", 0.05)
    group = Group([{"sandbox": {}}], ends=ends)
    with pytest.raises(JudgeError, match="the probe probe said no probe: exited with status 1 last words"):
        probing._Member(group, "probe", object(), {"part": "tools"}).heard("probe")
