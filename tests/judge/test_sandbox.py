"""Layers of the sandbox, seen from inside a forked process."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from judge.bench import landlock, seccomp
from judge.bench.forkserver import FIXED, clean_environment

ROOT = Path(__file__).resolve().parents[2]

INSIDE = """
import json, os, sys
from judge.bench import sandbox
from judge.bench.sandbox import Bounds
layers = sandbox.enter_namespaces()
bounds = Bounds(folder=sys.argv[1], memory_mb=512, cpu_s=20, allow_fork=sys.argv[2] == "fork", cuda=False)
layers |= sandbox.lock(bounds, namespaced=layers["namespaces"] != "unavailable")
def attempt(step):
    try:
        step()
    except (OSError, MemoryError) as error:
        return type(error).__name__
    return "done"
def fork():
    if os.fork() == 0:
        os._exit(0)
    os.wait()
import socket
print(json.dumps({"layers": layers, **{name: attempt(step) for name, step in {
    "write_own": lambda: open(sys.argv[1] + "/own", "w").close(),
    "write_other": lambda: open("/tmp/not-mine-to-write", "w").close(),
    "read_etc": lambda: open("/etc/hostname").read(),
    "read_library": lambda: open(os.__file__).read(),
    "internet": lambda: socket.socket(socket.AF_INET),
    "new_session": os.setsid,
    "signal_parent": lambda: os.kill(os.getppid(), 0),
    "signal_self": lambda: os.kill(os.getpid(), 0),
    "memory": lambda: bytearray(1 << 30),
    "fork": fork,
}.items()}}))
"""


def look_inside(folder: Path, forking: str) -> dict:
    run = subprocess.run(
        [sys.executable, "-c", INSIDE, str(folder), forking],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("forking", ["fork", "alone"])
def test_inside_only_the_private_folder_can_be_written(tmp_path, forking):
    found = look_inside(tmp_path, forking)
    layers = found["layers"]
    assert found["write_own"] == "done"
    assert found["memory"] == "MemoryError"
    assert found["read_library"] == "done"
    if layers["landlock"].startswith("active"):
        assert found["write_other"] == found["read_etc"] == "PermissionError"
    if layers["seccomp"] == "active":
        assert found["internet"] == found["new_session"] == found["signal_parent"] == "PermissionError"
        assert found["signal_self"] == "done"
        assert found["fork"] == ("done" if forking == "fork" else "PermissionError")


def test_every_layer_is_reported_in_words(tmp_path):
    for layer, state in look_inside(tmp_path, "fork")["layers"].items():
        assert state.split()[0] in {"active", "unavailable", "off", "partial"}, layer


def test_the_filter_is_whole_instructions_and_ends_in_allow():
    code = seccomp.program(own_pid=4321, allow_fork=False, allow_connect=False)
    assert len(code) % 8 == 0 and len(code) // 8 < 4096
    assert struct.unpack("HBBI", code[-8:]) == (seccomp.RETURN, 0, 0, seccomp.ALLOW)


def test_a_kernel_without_landlock_is_no_error(monkeypatch):
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert landlock.restrict(read=["/usr"], write=["/tmp"]) == 0


def test_the_zygotes_environment_is_a_list_of_what_may_pass(monkeypatch):
    for name in ("SECRET_KEY", "DATABASE_URL", "REDIS_URL", "OPENAI_API_KEY", "ADAEXPLORE_DATA", "PYTHONPATH"):
        monkeypatch.setenv(name, "hidden")
    env = clean_environment("cuda:2", interpret=True)
    assert "hidden" not in env.values()
    assert env["CUDA_VISIBLE_DEVICES"] == "2" and env["TRITON_INTERPRET"] == "1"
    assert set(FIXED) <= set(env)
    assert clean_environment("cpu", interpret=False)["CUDA_VISIBLE_DEVICES"] == ""
    assert os.environ["SECRET_KEY"] == "hidden"
