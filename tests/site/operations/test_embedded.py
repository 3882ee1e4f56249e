"""The embedded server takes nothing from a process that does not know its password, and the password stays hidden."""

from __future__ import annotations

import os
import socket
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adaexplore_site.core import env
from adaexplore_site.management.commands import up
from adaexplore_site.operations import embedded
from adaexplore_site.operations.supervisor import Role, Supervisor
from judge.bench.processes.forkserver import clean_environment

WORKER = [sys.executable, "-m", "celery", "-A", "adaexplore_site", "worker", "--loglevel", "DEBUG", "-P", "solo"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder whose name needs quoting, without an address of one's own."""
    folder = tmp_path / 'my "data" \\ 5% #1'
    folder.mkdir()
    monkeypatch.setenv("ADAEXPLORE_DATA", str(folder))
    monkeypatch.setenv("REDIS_URL", "")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "adaexplore_site.settings")  # for processes: not the suite's own
    return folder


@pytest.fixture
def broker(folder: Path) -> Iterator[Supervisor]:
    supervisor = Supervisor([up._broker()], folder / "logs", print)
    supervisor.start()
    yield supervisor
    supervisor.stop()


def said_to(path: Path, *commands: str) -> list[bytes]:
    """First line of each answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(5.0)
        client.connect(str(path))
        with client.makefile("rb") as lines:
            answers = []
            for command in commands:
                client.sendall(f"{command}\r\n".encode())
                answers.append(lines.readline())
            return answers


def test_the_server_of_the_wheel_answers_on_its_private_socket(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no redis-server, no valkey-server
    role = up._broker()
    assert "valkey" in Path(role.argv[0]).name
    supervisor = Supervisor([role], folder / "logs", print)
    supervisor.start()
    assert embedded.answers(env.embedded_socket(), env.embedded_password())
    supervisor.stop()
    assert not embedded.answers(env.embedded_socket(), env.embedded_password())


def test_whoever_connects_without_the_password_can_do_nothing(broker: Supervisor) -> None:
    path, password = env.embedded_socket(), env.embedded_password()
    tried = ["PING", "KEYS *", "LPUSH io x", "PUBLISH x y", "SUBSCRIBE x", "CONFIG GET requirepass",
             "EVAL return 0", "SHUTDOWN NOSAVE"]  # fmt: skip
    assert {answer[:7] for answer in said_to(path, *tried)} == {b"-NOAUTH"}
    assert said_to(path, f"AUTH {password[:-1]}")[0].startswith(b"-WRONGPASS")
    assert not embedded.answers(path, password[:-1])
    assert said_to(path, f"AUTH {password}", "LLEN io") == [b"+OK\r\n", b":0\r\n"]


def test_only_this_account_can_read_the_configuration(broker: Supervisor, folder: Path) -> None:
    config = folder / "valkey.conf"
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert stat.S_IMODE(env.embedded_socket().stat().st_mode) == 0o700
    config.chmod(0o644)
    embedded.configure(folder, env.embedded_socket(), env.embedded_password())
    assert stat.S_IMODE(config.stat().st_mode) == 0o600  # also where an older file was open to others


@pytest.mark.slow
def test_the_password_is_in_no_command_line_environment_or_log(broker: Supervisor, folder: Path) -> None:
    password = env.embedded_password()
    supervisor = Supervisor([Role("worker", [*WORKER, "-Q", "io"])], folder / "logs", print)
    supervisor.start()
    log = folder / "logs" / "worker.log"
    wait_for(log, "Connected to redis+socket://")
    processes = [child.process.pid for child in (*broker.children, *supervisor.children)]
    told = [Path(f"/proc/{pid}/{name}").read_text() for pid in processes for name in ("cmdline", "environ")]
    broker.stop()
    wait_for(log, "Cannot connect to redis+socket://")  # faults are told in other words than success
    supervisor.stop()
    logs = [path.read_text(errors="replace") for path in (folder / "logs").iterdir()]
    assert len(logs) == 2
    assert not [text[:80] for text in (*told, *logs) if password in text]
    assert password not in {*os.environ.values(), *clean_environment("cpu", interpret=False).values()}


def wait_for(log: Path, words: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while words not in log.read_text(errors="replace"):
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.1)
