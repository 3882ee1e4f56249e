"""A thread that was there before the lock, as those of CUDA's driver are, tries everything after it."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from judge.bench.sandboxing import landlock, sandbox, seccomp, threads

ROOT = Path(__file__).resolve().parents[3]

# The thread waits in libc's read(2), as a driver's does in poll(2), and then tries what the candidate could make it do.
CHILD = """
import json, os, socket, sys, threading
from judge.bench.sandboxing import landlock, sandbox, seccomp, threads
from judge.bench.sandboxing.sandbox import Bounds
folder, outside, how = sys.argv[1:]
parent = os.getppid()
wake, go = os.pipe()
tried, started, ended = {}, threading.Event(), threading.Event()

def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

STEPS = {
    "read_outside": lambda: open(outside).read(),
    "see_outside": lambda: os.stat(outside),
    "write_outside": lambda: open(outside, "a"),
    "write_library": lambda: open(os.__file__, "a"),
    "set_kernel": lambda: open("/proc/sys/kernel/printk", "a"),
    "read_environment": lambda: open(f"/proc/{parent}/environ").read(1),
    "parents_root": lambda: os.stat(f"/proc/{parent}/root/etc"),
    "parents_folder": lambda: os.listdir(f"/proc/{parent}/cwd/"),
    "init_s_root": lambda: os.stat("/proc/1/root/etc"),
    "parents_descriptors": lambda: open(f"/proc/{parent}/fd/0"),
    "parents_memory": lambda: open(f"/proc/{parent}/mem", "rb"),
    "parents_maps": lambda: open(f"/proc/{parent}/maps").read(1),
    "leave_root": lambda: os.stat("/../home") and None,
    "write_own": lambda: open(folder + "/own", "w").close(),
    "read_library": lambda: open(os.__file__).read(1),
    "internet": lambda: socket.socket(socket.AF_INET),
    "connect": lambda: socket.socket(socket.AF_UNIX).connect("/nowhere"),
    "kill": lambda: os.kill(parent, 0),
    "fork": fork,
    "unmount": lambda: sandbox.checked(sandbox.LIBC.umount2(b"/", 2)),
    "unshare": lambda: sandbox.checked(sandbox.LIBC.unshare(0x10000000)),
    "segment": lambda: sandbox.checked(sandbox.LIBC.shmget(0, 4096, 0o600)),
    "memfd": lambda: os.memfd_create("more"),
}

def attempt(step):
    try:
        step()
    except OSError as error:
        return error.errno
    return "done"

def wait():
    if how == "another root":
        sandbox.LIBC.unshare(0x200)  # CLONE_FS: a root folder of this thread's own
        os.chroot("/usr")
    started.set()
    os.read(wake, 1)
    tried.update({name: attempt(step) for name, step in STEPS.items()})
    ended.set()

os.chdir(folder)
layers = dict(sandbox.OUTSIDE) if how == "shared" else sandbox.enter_namespaces()
start = threading.Thread(target=wait, daemon=True).start
start() if how in ("with capabilities", "another root") else sandbox.without_capabilities(start)
started.wait()
if how == "this thread alone":
    seccomp.ALL_THREADS = 0
if how == "no filter":
    seccomp.available = lambda: False
bounds = Bounds(folder=folder, memory_mb=None, cpu_s=20, allow_fork=False, cuda=False, allow_memfd=False)
layers = sandbox.lock(bounds, layers)
statuses = threads.statuses()
os.write(go, b"1")
ended.wait()
print(json.dumps({"layers": layers, "tried": tried, "statuses": statuses}), flush=True)
os._exit(0)
"""


def look(tmp_path: Path, how: str) -> dict:
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").write_text("a key of this account")
    command = [sys.executable, "-c", CHILD, str(tmp_path / "inside"), str(tmp_path / "outside"), how]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert len(found["statuses"]) == 2
    return found


CALLS = ("internet", "connect", "kill", "fork", "unmount", "unshare", "segment", "memfd")


def test_nothing_gets_through_on_it_where_namespaces_can_be_made(tmp_path) -> None:
    found = look(tmp_path, "namespaces")
    layers, tried = found["layers"], found["tried"]
    if layers["files"].startswith("unavailable") or layers["seccomp"] != "active":
        pytest.skip(f"files are {layers['files']}, seccomp is {layers['seccomp']} on this machine")
    assert layers["files"] == layers["capabilities"] == layers["no_new_privs"] == "active"
    assert {name: tried[name] for name in CALLS} == dict.fromkeys(CALLS, errno.EPERM)
    assert {tried[name] for name in ("read_outside", "see_outside", "leave_root")} == {errno.ENOENT}
    assert (tried["write_outside"], tried["write_library"], tried["set_kernel"], tried["read_environment"]) == (
        errno.EROFS, errno.EROFS, errno.EROFS, errno.EACCES,
    )  # fmt: skip
    others = ("parents_root", "parents_folder", "init_s_root", "parents_descriptors", "parents_memory", "parents_maps")
    assert {tried[name] for name in others} <= {errno.EACCES, errno.EPERM}
    assert tried["write_own"] == tried["read_library"] == "done"
    for status in found["statuses"]:
        assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
        assert {int(status[name], 16) for name in (*threads.CAPABILITIES, "CapBnd")} == {0}
    if 0 < landlock.abi() < landlock.THREADS_SINCE:
        assert layers["landlock"] == f"partial (1 threads of the driver without it; abi {landlock.abi()})"


@pytest.mark.skipif(not seccomp.available(), reason="no seccomp here")
def test_without_namespaces_the_filter_holds_it_and_landlock_says_that_it_does_not(tmp_path) -> None:
    found = look(tmp_path, "shared")
    layers, tried = found["layers"], found["tried"]
    assert (layers["files"], layers["seccomp"], layers["no_new_privs"]) == ("off", "active", "active")
    assert {name: tried[name] for name in CALLS} == dict.fromkeys(CALLS, errno.EPERM)
    if 0 < landlock.abi() < landlock.THREADS_SINCE:
        assert tried["read_outside"] == "done" and layers["landlock"].startswith("partial (1 threads of the driver")
        assert sandbox.missing(layers, ["landlock", "files"]) == ["files"]
    elif landlock.abi():
        assert tried["read_outside"] == errno.EACCES and layers["landlock"].startswith("active")


@pytest.mark.parametrize(
    ("how", "layer", "said"),
    [
        ("with capabilities", "capabilities", "partial (1 threads of the driver without it)"),
        ("another root", "files", "failed (a thread kept the old root folder)"),
        ("no filter", "no_new_privs", "partial (1 threads of the driver without it)"),
        ("this thread alone", "seccomp", "failed (the kernel took the filter and does not apply it to every thread)"),
    ],
)
def test_a_thread_that_a_layer_leaves_out_is_seen(tmp_path, how, layer, said) -> None:
    found = look(tmp_path, how)["layers"]
    if found["files"].startswith("unavailable") or not seccomp.available():
        pytest.skip(f"files are {found['files']} on this machine")
    assert found[layer] == said and sandbox.missing(found, [layer]) == [layer]


def test_what_a_step_on_a_thread_of_its_own_raises_reaches_the_caller() -> None:
    def step() -> None:
        raise LookupError("no such device")

    with pytest.raises(LookupError, match="no such device"):
        threads.run_apart(step)


def test_a_thread_that_stays_is_an_error_with_its_number(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(threads, "GONE_S", 0.0)
    with pytest.raises(OSError, match="does not end") as refused:
        threads._wait_until_gone(tmp_path)
    assert refused.value.errno == errno.ETIMEDOUT


def test_a_thread_of_its_own_is_gone_when_its_step_is_done_and_one_that_ends_is_not_counted(tmp_path) -> None:
    seen: list[int] = []
    for _ in range(50):
        threads.run_apart(lambda: seen.append(threading.get_native_id()))
        assert not (threads.TASKS / str(seen[-1])).exists()
    assert threading.get_native_id() not in seen and threads._fields(tmp_path / "absent") == {}
