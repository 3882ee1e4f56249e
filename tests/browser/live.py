"""Real Daphne, a real channel server and a file database in a private folder, and a writer that plays the workers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext

from adaexplore_site.operations import embedded
from tests.browser.stack import ROOT, environment, free_port, wait_for

NAME, PASSWORD = "watcher", "a-long-enough-password"


class LiveStack:
    """`address` is up between `start` and `stop`. `write` changes rows; `kill_web` and `start_web` cut all sockets."""

    def __init__(self, data: Path, migrated: Path | None = None) -> None:
        """`migrated`: a data folder whose database is copied; without one it is migrated from nothing."""
        self.data, self.port, self.migrated = data, free_port(), migrated
        # A socket path holds at most 107 bytes; a test's own folder may be longer.
        self.redis_path = Path(tempfile.mkdtemp(prefix="adaexplore-live-")) / "hints.sock"
        self.env = environment(data, self.port, REDIS_URL=f"unix://:{PASSWORD}@{self.redis_path}", PYTHONPATH=str(ROOT))
        self.web: subprocess.Popen[bytes] | None = None
        self.redis: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        if self.migrated is not None:
            shutil.copytree(self.migrated, self.data)
        self.start_redis()
        if self.migrated is None:
            self.migrate()
        self.writer = subprocess.Popen(
            [sys.executable, "-m", "tests.browser.writer"],
            cwd=ROOT,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.web = self._web()
        self.write("user", name=NAME, password=PASSWORD)
        self._wait_for_web()

    def migrate(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self._run("manage.py", "migrate", "-v", "0")

    def start_redis(self) -> None:
        config = embedded.configure(self.redis_path.parent, self.redis_path, PASSWORD)
        self.redis = subprocess.Popen(embedded.argv(embedded.binary(), config), stdout=subprocess.DEVNULL)
        wait_for(lambda: embedded.answers(self.redis_path, PASSWORD), 10, "the channel server")

    def stop_redis(self) -> None:
        _end(self.redis)

    def start_web(self) -> None:
        self.web = self._web()
        self._wait_for_web()

    def _web(self) -> subprocess.Popen[bytes]:
        where = ["--websocket_timeout", "-1", "-b", "127.0.0.1", "-p", str(self.port)]
        with (self.data / "web.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "adaexplore_site.operations.web", *where],
                cwd=ROOT,
                env=self.env,
                stdout=log,
                stderr=log,
            )

    def _wait_for_web(self) -> None:
        wait_for(self._listens, 40, "the web server")

    def kill_web(self) -> None:
        """SIGKILL: sockets die without a close frame."""
        assert self.web is not None
        self.web.kill()
        self.web.wait(60)

    def stop(self) -> None:
        self.writer.stdin.close()  # type: ignore[union-attr]
        self.writer.stdout.close()  # type: ignore[union-attr]
        self.writer.wait(60)
        self.kill_web()  # on its own account it takes two seconds to leave
        _end(self.redis)

    def write(self, command: str, **fields: Any) -> dict[str, Any]:
        """One command of `writer.py`; returns once it is committed."""
        assert self.writer.stdin is not None
        assert self.writer.stdout is not None
        self.writer.stdin.write(json.dumps([command, fields]) + "\n")
        self.writer.stdin.flush()
        answer = self.writer.stdout.readline()
        assert answer, "the writer died"
        return dict(json.loads(answer))

    def sign_in(self, browser: Browser, name: str = NAME, **options: Any) -> BrowserContext:
        """A browser context of the one user, or of another that `write("user")` made, with a session of its own."""
        context = browser.new_context(**options)
        context.add_cookies([{**self.write("session", name=name), "url": self.address}])
        return context

    def sign_in_again(self, context: BrowserContext, name: str = NAME) -> None:
        """A new session in a context whose old one ended, by the form. The users have the same password."""
        page = context.new_page()
        page.goto(self.address + "/sign-in/")
        page.get_by_label("User name").or_(page.locator("[name=username]")).first.fill(name)
        page.locator("[name=password]").fill(PASSWORD)
        page.locator("[name=password]").press("Enter")
        page.wait_for_url(lambda url: "sign-in" not in url)
        page.close()

    def _listens(self) -> bool:
        import socket

        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _run(self, *args: str) -> None:
        done = subprocess.run([sys.executable, *args], cwd=ROOT, env=self.env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None and process.poll() is None:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)
