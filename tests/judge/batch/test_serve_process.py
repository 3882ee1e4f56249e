"""`python -m judge.bench serve` as a process: without Django, stopped by a signal, several on one folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from judge.batch.folder import Folder
from judge.batch.lines import job_line, read_outcome
from judge.devices.keys import make_key
from tests.judge.batch.test_batch_run import ROOT, descendants
from tests.judge.batch.test_folder import Waiting, token_of
from tests.judge.batch_makers import job
from tests.judge.bench_problems import candidate


def test_what_cannot_be_served_is_said_before_anything_starts(tmp_path) -> None:
    for more, said in (
        (("--key", str(tmp_path / "none.key")), "cannot be read"),
        ((), "--key"),
        (("--key", "x", "--job-limit-s", "no"), "number of seconds"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "judge.bench", "serve", str(tmp_path / "f"), "--device", "cpu", *more],
            cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 2 and said in done.stderr, done.stderr


@pytest.mark.bench
def test_two_servers_share_a_folder_and_a_signal_gives_the_job_back(tmp_path) -> None:
    key = make_key(tmp_path / "lab.key", "lab")
    blocked = tmp_path / "blocked" / "django"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('no Django on this machine')\n")
    environment = os.environ | {"PYTHONPATH": str(blocked.parent)}
    folder = Folder(tmp_path / "shared")

    def put(name: str, place: int, source: str | None = None) -> str:
        asked = job(name, *([source] if source else []), timing=False)
        waiting = Waiting(50, place, token_of(name, f"n{place}"))
        folder.put_job(waiting, job_line(asked, nonce=f"n{place}", key=key))
        return waiting.token

    def server(*more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "judge.bench", "serve", str(folder.root), "--device", "cpu"]
        command += ["--key", str(tmp_path / "lab.key"), "--cache", str(tmp_path / "cache"), *more]
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    hangs = put("hangs", 1, candidate("time.sleep(600)"))
    first = server()
    claim = folder.root / "claims" / hangs
    deadline = time.monotonic() + 200
    while not claim.exists() and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert claim.exists()
    children = descendants(first.pid)
    put("a", 2)
    second = server("--once")  # passes over what the first one holds
    _, said = second.communicate(timeout=200)
    assert second.returncode == 0 and "1 judged" in said, said
    first.send_signal(signal.SIGTERM)
    _, said = first.communicate(timeout=100)
    assert first.returncode == 130 and "interrupted" in said, said
    assert not claim.exists() and children and not any(Path(f"/proc/{pid}").exists() for pid in children)
    (found,) = (read_outcome(line.rstrip(b"\n"), {"lab": key}) for _, line in folder.outcomes())
    assert found.id == "a" and found.outcome.verdict == "pass"
