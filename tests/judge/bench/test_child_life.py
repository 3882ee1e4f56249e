"""What a forked child leaves behind and enters before it takes its assignment, seen from its role."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# A process that stands for the zygote: it has descriptors, signal handlers and a temporary folder of its own, and forks
# one child for each order. The child's role writes down how it finds itself.
ZYGOTE = """
import ctypes, gc, json, os, resource, signal, sys, tempfile, threading, types
from judge.bench.exchange.wire import Channel
from judge.bench.processes import child
from judge.bench.sandboxing import sandbox, threads

given = json.load(sys.stdin)
secret = os.open("/etc/passwd", os.O_RDONLY)
for number in (signal.SIGCHLD, signal.SIGTERM):
    signal.signal(number, lambda *_: None)
signal.set_wakeup_fd(os.pipe2(os.O_NONBLOCK)[1])
tempfile.gettempdir()

def found(assignment):
    death = ctypes.c_int()
    sandbox.LIBC.prctl(2, ctypes.byref(death), 0, 0, 0)
    print("printed", flush=True)
    print("complained", file=sys.stderr, flush=True)
    descriptors = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            descriptors[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass
    umask = os.umask(0)
    assignment.boss.send({
        "leads": os.getsid(0) == os.getpid() == os.getpgid(0), "descriptors": descriptors, "umask": umask,
        "signals": [signal.getsignal(number) == signal.SIG_DFL for number in (signal.SIGCHLD, signal.SIGTERM)],
        "wakeup": signal.set_wakeup_fd(-1), "cwd": os.getcwd(), "temp": tempfile.gettempdir(), "death": death.value,
        "nice": os.nice(0), "environment": dict(os.environ), "secret": secret,
        "assignment": {name: getattr(assignment, name) for name in
                       ("role", "payload", "links", "device", "target", "adapter", "layers")},
        "folder": str(assignment.folder), "frozen": gc.get_freeze_count() > 0, "steps": steps,
        "limits": [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS)],
    })
    print("last line")
    sys.stderr.write("no line end ")
    if assignment.payload["then"] == "raise":
        raise SystemExit("the role ends itself")

def note(step, real):
    def noted(*arguments, **named):
        steps.append(step)
        return real(*arguments, **named)
    return noted

steps = []
child.making_context = note("wait", child.making_context)
gpu = types.ModuleType("judge.bench.device.gpu")
leads = lambda: os.getpid() == threading.get_native_id()
gpu.make_context = lambda device: steps.append([device, leads(), threads.with_capabilities()])
gpu.use_context = lambda device: steps.append([device, leads()])
sys.modules[gpu.__name__] = gpu
for name in ("die_with_parent", "enter_namespaces", "lock"):
    setattr(sandbox, name, note(name, getattr(sandbox, name)))
role = types.ModuleType("judge.bench.deciding.referee")
role.run = found
sys.modules[role.__name__] = role
rows = []
for number, (order, payload) in enumerate(given["orders"]):
    boss, theirs = Channel.pair()
    log_read, log_write = os.pipe()
    folder = f"{given['folder']}/{number}"
    os.mkdir(folder)
    nice, device = order.pop("nice", 0), order.pop("device", "cpu")
    pid = os.fork()
    if pid == 0:
        context = {"device": device, "nice": nice, "target": "sm_90", "adapter": None}
        child.begin(theirs.detach(), log_write, {"folder": folder, "cpu_s": 20, "memory_mb": 512, **order}, context)
    theirs.close(); os.close(log_write)
    row = {"layers": boss.receive(10.0)["sandbox"], "folder": folder}
    try:
        boss.send({"role": "referee", **payload})
        row["found"] = boss.receive(10.0)
    except Exception as error:
        row["found"] = type(error).__name__
    row["status"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with os.fdopen(log_read, "rb") as file:
        row["log"] = file.read().decode()
    rows.append(row)
print(json.dumps(rows))
"""
OPEN = {"sandbox": False, "required": [], "allow_fork": True, "allow_memfd": True, "nice": 3}
CLOSED = {"sandbox": True, "required": ["rlimits", "no_new_privs"], "allow_fork": True, "allow_memfd": True}
ORDERS = {
    "open": (OPEN, {"then": "end"}),
    "closed": (CLOSED, {"then": "end"}),
    "alone": ({**CLOSED, "allow_fork": False}, {"then": "end"}),
    "gpu": ({**CLOSED, "device": "cuda:0"}, {"then": "end"}),
    "ends itself": (OPEN, {"then": "raise"}),
    "without a sandbox that is required": ({**OPEN, "required": ["landlock"]}, {"then": "end"}),
}


@pytest.fixture(scope="module")
def children(tmp_path_factory):
    folder = tmp_path_factory.mktemp("children")
    run = subprocess.run(
        [sys.executable, "-c", ZYGOTE],
        input=json.dumps({"folder": str(folder), "orders": list(ORDERS.values())}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    assert run.returncode == 0, run.stderr
    return dict(zip(ORDERS, json.loads(run.stdout), strict=True))


@pytest.mark.parametrize("name", ["open", "closed"])
def test_a_child_leaves_the_session_the_descriptors_and_the_signals_of_its_zygote(children, name):
    row = children[name]
    found = row["found"]
    assert found["leads"] and found["signals"] == [True, True] and found["wakeup"] == -1
    assert found["cwd"] == found["folder"] == row["folder"] and found["umask"] == 0o007
    places = found["descriptors"]
    assert places["0"] == "/dev/null" and places["1"] == places["2"] and places["1"].startswith("pipe:")
    kept = [place for number, place in places.items() if int(number) > 2 and not place.startswith("/proc/")]
    assert len(kept) <= 2 and all(place.startswith("socket:") or place == "/dev/null" for place in kept), places
    assert not any(place == "/etc/passwd" for place in places.values())
    assert row["log"] == "printed\ncomplained\nlast line\nno line end ", "all of it, though it was not flushed"
    assert found["frozen"], "what the zygote has loaded is in no later collection"
    assert found["death"] == 9, "it dies with its zygote, in a sandbox or without one"


def test_every_cache_and_temporary_folder_is_inside_the_private_one(children):
    found, folder = children["open"]["found"], children["open"]["folder"]
    caches = {
        "HOME": "home", "TMPDIR": "tmp", "TMP": "tmp", "TEMP": "tmp", "TRITON_CACHE_DIR": "triton",
        "TORCHINDUCTOR_CACHE_DIR": "inductor", "CUDA_CACHE_PATH": "cuda", "XDG_CACHE_HOME": "cache",
        "TRITON_HOME": "home",
    }  # fmt: skip
    assert {name: found["environment"][name] for name in caches} == {
        name: f"{folder}/{place}" for name, place in caches.items()
    }
    assert found["temp"] == f"{folder}/tmp"
    assert {path.name for path in Path(folder).iterdir()} == set(caches.values())


def test_the_assignment_is_what_was_ordered(children):
    found = children["open"]["found"]
    assert found["assignment"] == {
        "role": "referee", "payload": {"role": "referee", "then": "end"}, "links": [], "device": "cpu",
        "target": "sm_90", "adapter": None, "layers": {"namespaces": "off", "files": "off"},
    }  # fmt: skip
    assert found["nice"] - children["closed"]["found"]["nice"] == 3
    assert [children[name]["status"] for name in ("open", "closed", "alone")] == [0, 0, 0]


def test_the_role_is_told_the_layers_that_were_reported(children):
    for name in ("closed", "alone"):
        row = children[name]
        assert row["found"]["assignment"]["layers"] == row["layers"] and len(row["layers"]) == 9
        assert {row["layers"][layer] for layer in ("rlimits", "no_new_privs", "memory_limit")} == {"active"}


def test_what_a_role_raises_ends_the_child_with_its_traceback_and_nothing_else(children):
    row = children["ends itself"]
    assert row["status"] == 1 and row["found"]["folder"] == row["folder"]
    assert "SystemExit: the role ends itself" in row["log"] and "TypeError" not in row["log"]


def test_a_child_without_a_required_layer_ends_before_it_takes_anything(children):
    row = children["without a sandbox that is required"]
    assert row["layers"] == {"namespaces": "off", "files": "off"} and row["status"] == 0
    assert row["found"] in ("WireClosed", "BrokenPipeError") and not row["log"]


def test_namespaces_come_before_the_gpu_and_the_lock_after_it(children):
    """A second thread would keep the namespaces out; Landlock would keep CUDA from its files."""
    assert children["closed"]["found"]["steps"] == ["die_with_parent", "enter_namespaces", "lock", "die_with_parent"]
    assert children["open"]["found"]["steps"] == ["die_with_parent"]
    gpu = children["gpu"]["found"]
    able = int(
        gpu["assignment"]["layers"]["namespaces"] == "active" or os.geteuid() == 0
    )  # this thread, until the lock
    context = [["cuda:0", False, able], ["cuda:0", True]]  # made on a thread that has no capabilities
    order = ["die_with_parent", "enter_namespaces", "wait", *context, "lock", "die_with_parent"]
    assert gpu["steps"] == order and gpu["assignment"]["device"] == "cuda:0"


def test_a_gpu_child_has_no_limit_of_its_address_space_and_more_descriptors(children):
    gpu, cpu = children["gpu"], children["closed"]
    assert (gpu["layers"]["memory_limit"], gpu["found"]["limits"]) == ("off", [4096, -1])
    assert cpu["found"]["limits"][0] == 256 and cpu["found"]["limits"][1] > 512 << 20
