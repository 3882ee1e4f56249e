"""The dashboard as a user starts it, driven over REST as a program does."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from search.proposers.exchange import fenced_blocks
from tests.benchmarks.elsewhere.plan import Place
from tests.browser.stack import ROOT, Stack, environment
from tests.llm_stub_kernels import answer_prompt, whole_module

Say = Callable[[str], None]
LOOK_S = 1.0
ENDED = {"finished", "stopped", "failed"}
TOKEN = (
    "from django.utils import timezone\n"
    "from adaexplore_site.accounts.services import token_issue\n"
    "from adaexplore_site.accounts.signin import first_admin\n"
    "given = {'name': 'benchmark', 'scopes': ['read', 'steer'], 'days': 1}\n"
    "print(token_issue(**given, user=first_admin(), now=timezone.now())[1])\n"
)


class Refused(Exception):
    """The site did not do what it was asked; the text is its answer."""


class Program:
    """A program with a token. Raises Refused."""

    def __init__(self, address: str, token: str) -> None:
        self._address, self._token = f"{address}/api/v1", token

    def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Status and answer; a POST where there is a body."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(f"{path}: {error.code} {error.read(2000).decode(errors='replace')}") from error

    def start(self, fields: dict[str, Any], until: float) -> int:
        """The number of a search, once the preflight has passed."""
        while time.monotonic() < until:
            status, answer = self.ask("/acts/run.start", fields)
            if status == 200:
                return int(re.findall(r"\d+", answer["at"])[0])
            time.sleep(LOOK_S)
        raise Refused(f"the preflight on {fields['device']} was not over in time")

    def nodes(self, run: int) -> list[dict[str, Any]]:
        """All nodes of a search, by number."""
        found, after = list[dict[str, Any]](), -1
        while True:
            _, page = self.ask(f"/searches/{run}/nodes?after={after}")
            found += page["items"]
            if page["next"] is None:
                return found
            after = page["next"]

    def follow(self, run: int, steps: int, until: float, say: Say) -> bool:
        """Look on, and answer each prompt that waits for a reply, until `steps` are completed or the search has ended.
        False where the time was over before."""
        told = 0
        while time.monotonic() < until:
            _, found = self.ask(f"/searches/{run}")
            if found["told"] > told:
                told = found["told"]
                say(f"  search {run}: {told} of {found['steps']} steps")
            if told >= steps or found["state"] in ENDED:
                return True
            for node in self.nodes(run):
                if node["state"] == "proposing":
                    self._answer(run, node["number"])
            time.sleep(LOOK_S)
        return False

    def _answer(self, run: int, number: int) -> None:
        _, node = self.ask(f"/searches/{run}/nodes/{number}")
        if node["waits_for"] != "reply":
            return
        *others, last = replies(node["prompt"], number)
        for text in others:
            with suppress(Refused):  # such as one that leaves the kernel as it is
                self.ask(f"/acts/node.reply/{run}/{number}", {"text": text})
                return
        self.ask(f"/acts/node.reply/{run}/{number}", {"text": last})


def replies(prompt: str, number: int) -> list[str]:
    """What may be answered, the first choice first: it depends on the prompt and the node's number alone."""
    patch = answer_prompt({"messages": [{"content": prompt}]})
    shown = [block for block in fenced_blocks(prompt)[0] if re.search(r"^class Model\b", block, re.MULTILINE)]
    blocks = [64 << (number + turn) % 6 for turn in range(2)]
    return [patch, *(f"```python\n{whole_module(shown[0], block)}```\n" for block in blocks if shown)]


@contextmanager
def site(place: Place) -> Iterator[tuple[Stack, Program]]:
    """`manage.py up` on the data of the place."""
    stack = Stack(place.site, JUDGE_FOLDER=str(place.jobs)).start(120)
    try:
        token = stack.manage("shell", "-v", "0", "-c", TOKEN).split()[-1]
        yield stack, Program(stack.address, token)
    finally:
        stack.stop()


def manage(place: Place, arguments: list[str]) -> tuple[int, str]:
    """Status and output of a command on the data of the place."""
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(place.site, 0), capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout + done.stderr


@contextmanager
def server(command: list[str], log: Path) -> Iterator[None]:
    """The process that judges, until the block ends. Raises Refused where it has ended by itself."""
    with log.open("a") as out:
        process = subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=out, stderr=out, start_new_session=True)
        try:
            yield
            if process.poll() is not None:
                raise Refused(f"the server ended with status {process.returncode}: {log.read_text()[-500:]}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
