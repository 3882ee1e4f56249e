"""The whole product as a user starts it: `manage.py up` in a private data folder, with means to kill its parts."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parent.parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Poll until `condition()` is true; AssertionError naming `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.1)


def environment(data: Path, port: int, **extra: str) -> dict[str, str]:
    """The environment of a stranger's shell: no REDIS_URL, no DATABASE_URL, no key, no redis-server on PATH."""
    hidden = {"REDIS_URL", "DATABASE_URL", "DJANGO_SETTINGS_MODULE", "LLM_API_KEY", "OPENAI_API_KEY", "SECRET_KEY"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    places = [p for p in kept.get("PATH", "").split(":") if not (Path(p) / "redis-server").exists()]
    return {**kept, "PATH": ":".join(places), "ADAEXPLORE_DATA": str(data), "PORT": str(port), **extra}


class Stack:
    """`manage.py up` as a child process. `address` and `link` are known once it greets."""

    def __init__(self, data: Path, **extra: str) -> None:
        self.data, self.port = data, free_port()
        self.env = environment(data, self.port, **extra)
        self.lines: list[str] = []
        self.link = ""
        self.process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"http://localhost:{self.port}"

    def start(self, seconds: float = 60) -> Self:
        self.lines.clear()
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up"],
            cwd=ROOT,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()
        wait_for(lambda: self._greeted() or self.process.poll() is not None, seconds, "manage.py up to greet")
        assert self._greeted(), "".join(self.lines)
        return self

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            self.lines.extend(process.stdout)

    def _greeted(self) -> bool:
        found = re.search(r"Sign in once with: (\S+)", "".join(self.lines))
        self.link = found.group(1) if found else self.link
        return bool(found) and any("Ctrl-C" in line for line in self.lines)

    def pids(self, part: str) -> list[int]:
        """Processes below the supervisor whose command line holds `part`."""
        assert self.process is not None
        wanted = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == self.process.pid and part in line:
                wanted.append(int(entry.name))
        return wanted

    def kill(self, part: str) -> None:
        """SIGKILL the child whose command line holds `part`, and wait until the supervisor has a new one."""
        before = self.pids(part)
        assert before, f"no process with {part!r} to kill"
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: set(self.pids(part)) - set(before), 30, f"{part} to be started again")

    def stop(self) -> int:
        """Ctrl-C; returns the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(40)

    def leftovers(self) -> list[str]:
        """Command lines of processes that still use the data folder."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if str(self.data) in (entry / "environ").read_bytes().decode(errors="replace"):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found

    def manage(self, *args: str, timeout: float = 120) -> str:
        """Output of a management command on the same data folder."""
        done = subprocess.run(
            [sys.executable, "manage.py", *args],
            cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout
