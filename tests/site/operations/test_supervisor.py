"""Processes are started in order, restarted when they die, and never outlive their supervisor."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from adaexplore_site.management.commands import up
from adaexplore_site.operations.supervisor import CannotStart, Role, Supervisor

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
]


def until(condition: object, seconds: float = 8.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def test_a_dead_child_is_started_again(tmp_path: Path) -> None:
    said: list[str] = []
    supervisor = Supervisor([Role("sleeper", SLEEPER)], tmp_path, said.append)
    supervisor.start()
    watcher = threading.Thread(target=supervisor.run, args=(0.02,))
    watcher.start()
    first = supervisor.children[0].process.pid
    os.kill(first, signal.SIGKILL)
    assert until(lambda: supervisor.children[0].process.pid != first)
    supervisor.stop()
    watcher.join()
    assert "sleeper ended with status -9" in said[0]
    assert not alive(supervisor.children[0].process.pid)


def test_a_child_deaf_to_sigterm_is_killed(tmp_path: Path) -> None:
    heard = lambda: "deaf" in (tmp_path / "stubborn.log").read_text()  # noqa: E731
    supervisor = Supervisor([Role("stubborn", STUBBORN, ready=heard, stop_s=0.2)], tmp_path, print)
    supervisor.start()
    supervisor.stop()
    assert supervisor.children[0].process.returncode == -signal.SIGKILL


def test_a_child_that_never_gets_ready_names_its_log(tmp_path: Path) -> None:
    role = Role("broken", [sys.executable, "-c", "raise SystemExit(3)"], ready=lambda: False)
    with pytest.raises(CannotStart, match=r"broken did not come up \(exit status 3\).*broken.log"):
        Supervisor([role], tmp_path, print).start()


def test_a_killed_supervisor_leaves_nothing_behind(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from adaexplore_site.operations.supervisor import Role, Supervisor\n"
        f"s = Supervisor([Role('sleeper', {SLEEPER!r})], pathlib.Path({str(tmp_path)!r}), print)\n"
        "s.start(); print(s.children[0].process.pid, flush=True); s.run()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert alive(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert until(lambda: not alive(child))


def test_a_taken_port_says_how_to_choose_another() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(up.CommandError, match="PORT=8001 make run"):
            up._check_port("127.0.0.1", taken.getsockname()[1])


def test_a_port_that_is_no_number_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "abc")
    with pytest.raises(up.CommandError, match="whole number from 1 to 65535"):
        up._port()


def test_a_full_disk_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(up, "FREE_BYTES", 1 << 60)
    with pytest.raises(up.CommandError, match="Free some disk space or set ADAEXPLORE_DATA"):
        up._check_disk(tmp_path)


def test_two_supervisors_do_not_share_a_data_folder(tmp_path: Path) -> None:
    held = up._claim(tmp_path)
    with pytest.raises(up.CommandError, match="already runs"):
        up._claim(tmp_path)
    held.close()
    up._claim(tmp_path).close()
