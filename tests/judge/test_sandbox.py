"""Layers of the sandbox, seen from inside a forked process."""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from judge.bench.processes.forkserver import FIXED, clean_environment
from judge.bench.sandboxing import landlock, sandbox, seccomp

ROOT = Path(__file__).resolve().parents[2]

INSIDE = """
import array, fcntl, json, os, resource, socket, sys
from judge.bench.sandboxing import sandbox
from judge.bench.sandboxing.sandbox import Bounds
outside, parent = sys.argv[3], os.getppid()
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
print(json.dumps({"layers": layers, **{name: attempt(step) for name, step in {
    "write_own": lambda: open(sys.argv[1] + "/own", "w").close(),
    "write_other": lambda: open("/tmp/not-mine-to-write", "w").close(),
    "read_etc": lambda: open("/etc/hostname").read(),
    "read_library": lambda: open(os.__file__).read(),
    "internet": lambda: socket.socket(socket.AF_INET),
    "local_socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
    "socket_pair": socket.socketpair,
    "limit_parent": lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE, (64, 64)),
    "limit_self": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
    "mode": lambda: os.chmod(outside, 0),
    "open_mode": lambda: os.fchmod(os.open(os.__file__, os.O_RDONLY), os.stat(os.__file__).st_mode),
    "times": lambda: os.utime(outside, (1, 1)),
    "mark": lambda: os.setxattr(outside, "user.mark", b"1"),
    "slow_parent": lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
    "pin_parent": lambda: os.sched_setaffinity(parent, {0}),
    "idle_parent": lambda: os.sched_setscheduler(parent, os.SCHED_IDLE, os.sched_param(0)),
    "new_session": os.setsid,
    "signal_parent": lambda: os.kill(os.getppid(), 0),
    "signal_self": lambda: os.kill(os.getpid(), 0),
    "signal_by_owner": lambda: fcntl.fcntl(0, fcntl.F_SETOWN, parent),
    "signal_by_other_owner": lambda: fcntl.fcntl(0, 15, array.array("i", [1, parent]).tobytes()),
    "choose_signal": lambda: fcntl.fcntl(0, 10, 9),
    "signal_by_ioctl": lambda: fcntl.ioctl(socket.socketpair()[0], 0x8902, array.array("i", [parent]).tobytes()),
    "ordinary_fcntl": lambda: fcntl.fcntl(0, fcntl.F_GETFD),
    "memory": lambda: bytearray(1 << 30),
    "fork": fork,
}.items()}}))
"""


def look_inside(folder: Path, forking: str, outside: Path = Path("/nowhere")) -> dict:
    run = subprocess.run(
        [sys.executable, "-c", INSIDE, str(folder), forking, str(outside)],
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
        assert found["signal_self"] == found["ordinary_fcntl"] == "done"
        owners = ("signal_by_owner", "signal_by_other_owner", "choose_signal", "signal_by_ioctl")
        assert {found[name] for name in owners} == {"PermissionError"}
        assert found["fork"] == ("done" if forking == "fork" else "PermissionError")


def test_nothing_inside_changes_a_file_or_a_process_outside(tmp_path):
    """Landlock guards no modes, owners and times; the kernel lets a user limit and slow down all his processes."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.write_text("the database")
    outside.chmod(0o640)
    file, process = outside.stat(), process_state()
    found = look_inside(inside, "fork", outside)
    if found["layers"]["seccomp"] != "active":
        pytest.skip("no seccomp here")
    assert {found[name] for name in ("mode", "open_mode", "times", "slow_parent", "pin_parent", "idle_parent")} == {
        "done"  # pretended, so that a compiler does not stop at its own files
    }
    assert found["limit_parent"] == found["mark"] == found["local_socket"] == "PermissionError"
    assert found["limit_self"] == found["socket_pair"] == "done"
    assert (outside.stat(), process_state()) == (file, process)


def process_state() -> tuple[object, ...]:
    return (
        resource.getrlimit(resource.RLIMIT_NOFILE),
        os.getpriority(os.PRIO_PROCESS, 0),
        os.sched_getaffinity(0),
        os.sched_getscheduler(0),
    )


def connecting(*, namespaced: bool, monkeypatch) -> bool:
    """Whether a CUDA child may connect, as `lock` decides it."""
    asked = {}
    monkeypatch.setattr(sandbox, "_limit", lambda *_, **__: "active")
    monkeypatch.setattr(sandbox, "_drop_capabilities", lambda: True)
    monkeypatch.setattr(sandbox, "LIBC", SimpleNamespace(prctl=lambda *_: 0))
    monkeypatch.setattr(landlock, "restrict", lambda **_: 1)
    monkeypatch.setattr(seccomp, "install", lambda **given: asked.update(given) or True)
    bounds = sandbox.Bounds(folder="/tmp", memory_mb=None, cpu_s=20, allow_fork=True, cuda=True)
    sandbox.lock(bounds, namespaced=namespaced)
    return asked["allow_connect"]


def test_a_gpu_child_connects_only_where_it_shares_the_network_namespace(monkeypatch):
    assert connecting(namespaced=False, monkeypatch=monkeypatch)
    assert not connecting(namespaced=True, monkeypatch=monkeypatch)


def test_every_layer_is_reported_in_words(tmp_path):
    for layer, state in look_inside(tmp_path, "fork")["layers"].items():
        assert state.split()[0] in {"active", "unavailable", "off", "partial"}, layer


def test_the_filter_is_whole_instructions_and_ends_in_allow():
    code = seccomp.program(own_pid=4321, allow_fork=False, allow_socket=False, allow_connect=False)
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
