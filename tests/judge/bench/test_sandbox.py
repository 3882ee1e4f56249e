"""Layers of the sandbox, seen from inside a forked process."""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from judge.bench.processes.forkserver import FIXED, clean_environment
from judge.bench.sandboxing import landlock, sandbox, seccomp

ROOT = Path(__file__).resolve().parents[3]

INSIDE = """
import array, ctypes, fcntl, json, os, resource, socket, sys
from judge.bench.sandboxing import sandbox
from judge.bench.sandboxing.sandbox import Bounds
outside, parent = sys.argv[3], os.getppid()
layers = dict(sandbox.OUTSIDE) if sys.argv[2] == "shared" else sandbox.enter_namespaces()
cuda = sys.argv[2] == "cuda"
bounds = Bounds(folder=sys.argv[1], memory_mb=None if cuda else 512, cpu_s=20, allow_fork=sys.argv[2] != "alone",
                cuda=cuda, allow_memfd=cuda)
mapped = sandbox.address_space_bytes()
layers = sandbox.lock(bounds, layers)
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
death = ctypes.c_int()
sandbox.LIBC.prctl(2, ctypes.byref(death), 0, 0, 0)
facts = {
    "limits": {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name))
               for name in ("CORE", "FSIZE", "NOFILE", "CPU", "NPROC")},
    "memory": [limit - mapped for limit in resource.getrlimit(resource.RLIMIT_AS)],
    "status": dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines() if ":" in line),
    "spaces": {kind: os.readlink("/proc/self/ns/" + kind) for kind in ("user", "net", "ipc", "uts")},
    "ids": [open("/proc/self/" + name).read().split() for name in ("uid_map", "gid_map", "setgroups")],
    "dumpable": sandbox.LIBC.prctl(3, 0, 0, 0, 0),
    "death": death.value,
}
print(json.dumps({"facts": facts, "layers": layers, **{name: attempt(step) for name, step in {
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
    "lock_without_a_name": lambda: fcntl.fcntl(0, 37, bytes(32)),
    "ordinary_fcntl": lambda: fcntl.fcntl(0, fcntl.F_GETFD),
    "memory": lambda: bytearray(1 << 30),
    "connect": lambda: socket.socket(socket.AF_UNIX).connect("/nowhere/at/all"),
    "read_proc": lambda: [open("/proc/" + name).read() for name in ("cpuinfo", "meminfo", "stat", "self/status")],
    "use_devices": lambda: [open("/dev/" + name, "rb").read(1) for name in ("urandom", "random", "zero", "full")],
    "write_null": lambda: open("/dev/null", "wb").write(b"1"),
    "list_root": lambda: os.listdir("/"),
    "list_proc": lambda: os.listdir("/proc"),
    "segment": lambda: sandbox.checked(sandbox.LIBC.shmget(0, 4096, 0o600)),
    "memfd": lambda: os.memfd_create("more"),
    "fork": fork,
}.items()}}))
"""


def look_inside(folder: Path, forking: str, outside: Path = Path("/nowhere")) -> dict:
    run = subprocess.run(
        [sys.executable, "-c", INSIDE, str(folder), forking, str(outside)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        start_new_session=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("forking", ["fork", "alone", "shared"])
def test_inside_only_the_private_folder_can_be_written(tmp_path, forking):
    found = look_inside(tmp_path, forking)
    layers = found["layers"]
    assert found["write_own"] == "done"
    assert found["memory"] == "MemoryError"
    assert found["read_library"] == "done"
    if layers["files"] == "active":
        assert (found["write_other"], found["read_etc"]) == ("OSError", "FileNotFoundError")  # read-only, not there
    elif layers["landlock"].startswith("active"):
        assert found["write_other"] == found["read_etc"] == "PermissionError"
    if layers["seccomp"] == "active":
        assert found["segment"] == found["memfd"] == "PermissionError"
        assert found["internet"] == found["new_session"] == found["signal_parent"] == "PermissionError"
        assert found["signal_self"] == found["ordinary_fcntl"] == "done"
        owners = ("signal_by_owner", "signal_by_other_owner", "choose_signal", "signal_by_ioctl")
        assert {found[name] for name in owners} == {"PermissionError"}
        assert found["lock_without_a_name"] == "PermissionError"
        assert found["fork"] == ("PermissionError" if forking == "alone" else "done")


UNMAPPED = 65534
STARTS = {"CORE": 0, "FSIZE": 1 << 30, "CPU": 20}


@pytest.mark.parametrize(
    ("kind", "limits"),
    [("fork", {"NOFILE": 256, "NPROC": 64}), ("alone", {"NOFILE": 256, "NPROC": 64}),
     ("cuda", {"NOFILE": 4096, "NPROC": 512})],
)  # fmt: skip
def test_what_a_child_has_given_up_can_be_read_off_its_process(tmp_path, kind, limits):
    found = look_inside(tmp_path, kind)
    facts, layers, status = found["facts"], found["layers"], found["facts"]["status"]
    namespaced = layers["namespaces"] == "active"
    hard = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1] for name in {**STARTS, **limits}}
    wanted = {name: value if hard[name] < 0 else min(value, hard[name]) for name, value in {**STARTS, **limits}.items()}
    if not namespaced:
        del wanted["NPROC"]
    assert {name: facts["limits"][name] for name in wanted} == {name: [value] * 2 for name, value in wanted.items()}
    if kind == "cuda":
        assert layers["memory_limit"] == "off" and found["memory"] == "done"
    else:
        assert facts["memory"][0] == facts["memory"][1] and 0 <= facts["memory"][0] - (512 << 20) < 64 << 20
    assert layers["process_limit"] == ("active" if namespaced else "unavailable")
    assert layers["rlimits"] == layers["capabilities"] == layers["no_new_privs"] == "active"
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}
    assert (status["NoNewPrivs"].strip(), facts["dumpable"], facts["death"]) == ("1", 0, 9)
    if layers["seccomp"] == "active":
        assert status["Seccomp"].strip() == "2"
    if namespaced:
        assert int(status["CapBnd"], 16) == 0
        own = {space: os.readlink(f"/proc/self/ns/{space}") for space in facts["spaces"]}  # noqa: PTH115
        assert not set(own.values()) & set(facts["spaces"].values())
        ids = [[str(UNMAPPED), str(number), "1"] for number in (os.geteuid(), os.getegid())]
        assert facts["ids"] == [*ids, ["deny"]]


@pytest.mark.parametrize("kind", ["fork", "cuda"])
def test_what_compilers_and_torch_need_can_be_reached_and_nothing_else(tmp_path, kind):
    found = look_inside(tmp_path, kind)
    assert found["read_proc"] == found["use_devices"] == found["write_null"] == "done"
    if found["layers"]["landlock"].startswith("active"):
        assert found["list_root"] == found["list_proc"] == "PermissionError"
    if found["layers"]["seccomp"] == "active":
        connects = kind == "cuda" and found["layers"]["namespaces"] != "active"
        refusal = {"fork": "PermissionError", "cuda": "ConnectionRefusedError"}[kind]
        assert found["connect"] == ("FileNotFoundError" if connects else refusal)
        assert found["local_socket"] == ("done" if kind == "cuda" else "PermissionError")


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
    for step in ("_limit_resources", "_limit_memory", "_limit_processes", "_drop_capabilities", "_renounce_privileges"):
        monkeypatch.setattr(sandbox, step, lambda *_, **__: "active")
    monkeypatch.setattr(sandbox, "LIBC", SimpleNamespace(prctl=lambda *_: 0))
    monkeypatch.setattr(landlock, "restrict", lambda **_: 1)
    monkeypatch.setattr(seccomp, "install", lambda **given: asked.update(given) or True)
    bounds = sandbox.Bounds(folder="/tmp", memory_mb=None, cpu_s=20, allow_fork=True, cuda=True)
    sandbox.lock(bounds, {"namespaces": "active" if namespaced else "off", "files": "off"})
    return asked["allow_connect"]


def test_a_gpu_child_connects_only_where_it_shares_the_network_namespace(monkeypatch):
    assert connecting(namespaced=False, monkeypatch=monkeypatch)
    assert not connecting(namespaced=True, monkeypatch=monkeypatch)


@pytest.mark.parametrize(
    ("error", "said"),
    [(OSError(1, "Operation not permitted"), "failed (Operation not permitted)"), (OSError("odd"), "failed (odd)"),
     (ValueError("current limit exceeds maximum limit"), "failed (current limit exceeds maximum limit)")],
)  # fmt: skip
def test_a_step_that_fails_is_reported_with_the_reason_alone(error, said):
    def step():
        raise error

    assert sandbox._state(step) == said and sandbox._state(lambda: "active") == "active"


LIMITED = """
import json, resource
from judge.bench.sandboxing import sandbox
found = []
for soft, hard, wanted in ((1 << 20, 1 << 20, 1 << 30), (1 << 10, 1 << 20, 1 << 15), (1 << 10, 1 << 15, 1 << 12)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    sandbox._set(resource.RLIMIT_FSIZE, wanted)
    found.append(resource.getrlimit(resource.RLIMIT_FSIZE))
print(json.dumps(found))
"""


def test_a_limit_that_is_lower_already_stays_where_it_is():
    run = subprocess.run([sys.executable, "-c", LIMITED], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [[1 << 20] * 2, [1 << 15] * 2, [1 << 12] * 2]


def test_the_address_space_is_all_that_is_mapped_and_not_only_what_is_in_memory():
    mapped = mmap.mmap(-1, 1 << 30)  # touched nowhere
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    size, resident = (int(rows[name].split()[0]) << 10 for name in ("VmSize", "VmRSS"))
    assert size - resident >= 1 << 30 and abs(sandbox.address_space_bytes() - size) < 64 << 20
    mapped.close()


def test_whether_a_process_can_be_forked_is_tried_and_leaves_none(monkeypatch):
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    assert sandbox._can_fork() and children.read_text() == before

    def refused():
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refused)
    assert not sandbox._can_fork()


def test_every_layer_is_reported_in_words(tmp_path):
    layers = look_inside(tmp_path, "fork")["layers"]
    assert {"landlock", "seccomp", "rlimits"} <= layers.keys()
    for layer, state in layers.items():
        assert state.split()[0] in {"active", "unavailable", "failed", "off", "partial"}, layer


def test_only_what_is_active_counts(monkeypatch):
    layers = {
        "a": "active", "b": "active (abi 7)", "c": "failed (Operation not permitted)", "d": "partial (no ids)",
        "e": "unavailable", "f": "off",
    }  # fmt: skip
    assert sandbox.missing(layers, ["a", "b"]) == [] == sandbox.missing({}, [])
    assert sandbox.missing(layers, ["f", "a", "c", "d", "e", "never said"]) == ["f", "c", "d", "e", "never said"]
    inside = {state: sandbox.namespaced({"namespaces": state}) for state in layers.values()}
    assert [state for state, left in inside.items() if left] == ["active", "active (abi 7)", "partial (no ids)"]


def test_a_machine_that_lacks_a_layer_says_unavailable(monkeypatch):
    bounds = sandbox.Bounds(folder="/tmp", memory_mb=None, cpu_s=20, allow_fork=True, cuda=False)
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    monkeypatch.setattr(seccomp, "available", lambda: False)
    assert sandbox._guard_files(bounds) == sandbox._filter_calls(bounds, namespaced=True) == "unavailable"


def test_landlock_opens_what_is_listed_and_no_more(monkeypatch, tmp_path):
    """A path more is a decision: what can be read is told to whoever judges uploaded code."""
    asked = {}
    monkeypatch.setattr(landlock, "restrict", lambda **given: asked.update(given) or 1)
    monkeypatch.setattr(sandbox, "toolchain_folders", lambda: ["/toolchain"])
    monkeypatch.setattr(sandbox, "_gpu_devices", lambda: ["/dev/nvidia0"])
    monkeypatch.setattr(sandbox.threads, "others", lambda: 0)
    bounds = sandbox.Bounds(folder=str(tmp_path), memory_mb=None, cpu_s=20, allow_fork=True, cuda=True)
    assert sandbox._guard_files(bounds) == "active (abi 1)"
    system = """
        /usr /lib /lib64 /bin /sbin /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/alternatives /etc/localtime
        /proc/self /proc/cpuinfo /proc/meminfo /proc/stat /proc/driver/nvidia /sys/devices/system /sys/bus/pci
        /dev/urandom /dev/random /dev/zero /dev/full /toolchain
    """
    devices = ["/dev/null", "/dev/tty"]
    assert asked == {"read": system.split(), "write": [str(tmp_path)], "devices": [*devices, "/dev/nvidia0"]}
    sandbox._guard_files(dataclasses.replace(bounds, cuda=False))
    assert asked["devices"] == devices


def test_the_toolchain_is_python_torch_cuda_and_the_compiler(monkeypatch, tmp_path):
    for name in ("cuda/lib", "llvm/bin", "real/bin", "venv/lib/site-packages", "venv/lib/dist-packages/torch"):
        (tmp_path / name).mkdir(parents=True)
    compiler = tmp_path / "real/bin/clang-19"
    compiler.touch(mode=0o755)
    (tmp_path / "llvm/bin/gcc").symlink_to(compiler)
    (tmp_path / "llvm/bin/my-cc").symlink_to(compiler)
    monkeypatch.setenv("PATH", str(tmp_path / "llvm/bin"))
    for name in ("CC", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/cuda/lib:relative:")
    monkeypatch.setenv("CUDA_HOME", f"{tmp_path}/cuda")
    site, dist = f"{tmp_path}/venv/lib/site-packages", f"{tmp_path}/venv/lib/dist-packages"
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "project"), site, dist])
    for name in ("torch", "triton", "numpy"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__file__=f"{dist}/torch/__init__.py"))
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__file__=f"{site}/triton/__init__.py"))
    monkeypatch.setitem(sys.modules, "numpy", SimpleNamespace(__file__=f"{dist}/numpy/__init__.py"))
    modules = {f"{dist}/torch", f"{site}/triton", f"{dist}/numpy"}
    roots = [f"{tmp_path}/llvm", f"{tmp_path}/real"]
    tools = {f"{root}/{part}" for root in roots for part in ("bin", "lib", "lib64", "libexec", "include")}
    python = {sys.prefix, sys.base_prefix, sys.exec_prefix, str(ROOT / "judge")}
    expected = python | tools | {site, dist, *modules, f"{tmp_path}/cuda", f"{tmp_path}/cuda/lib"}
    assert sandbox.toolchain_folders() == sorted(expected)
    for variable, folder in (("CUDA_PATH", "toolkit"), ("CC", "my-cc")):
        (tmp_path / "llvm/bin/gcc").unlink(missing_ok=True)
        monkeypatch.setenv(variable, f"{tmp_path}/{folder}" if variable == "CUDA_PATH" else folder)
        expected |= {f"{tmp_path}/toolkit"}
    assert sandbox.toolchain_folders() == sorted(expected)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert set(sandbox.toolchain_folders()) == expected - {f"{dist}/torch"}
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__file__=None))
    monkeypatch.delitem(sys.modules, "triton")
    monkeypatch.delitem(sys.modules, "numpy")
    assert set(sandbox.toolchain_folders()) == expected - modules
    for name in ("cc", "clang", "ld"):
        monkeypatch.setenv("CC", "")
        assert not tools & set(sandbox.toolchain_folders())
        (tmp_path / "llvm/bin" / name).symlink_to(compiler)
        assert tools <= set(sandbox.toolchain_folders()), name
        (tmp_path / "llvm/bin" / name).unlink()


@pytest.mark.parametrize(("real", "effective", "changes"), [(0, 0, True), (1000, 0, False), (0, 1000, False)])
def test_real_root_becomes_nobody_so_that_its_processes_are_counted(monkeypatch, real, effective, changes):
    asked = []
    for name, value in {"getuid": real, "geteuid": effective}.items():
        monkeypatch.setattr(os, name, lambda value=value: value)
    monkeypatch.setattr(os, "setresuid", lambda *ids: asked.append(ids))
    monkeypatch.setattr(sandbox, "LIBC", SimpleNamespace(unshare=lambda flags: asked.append(flags) or -1))
    assert sandbox.enter_namespaces()["namespaces"].startswith("unavailable")
    assert sandbox.enter_namespaces()["files"].startswith("unavailable")
    del asked[len(asked) // 2 :]
    assert asked == [*[(65534, 0, 0)] * changes, 0x10000000 | 0x40000000 | 0x08000000 | 0x04000000]


def test_a_gpu_child_gets_nvidias_devices(monkeypatch):
    class Dev:
        def __init__(self, place):
            assert place == "/dev"

        def glob(self, pattern):
            return [Path(f"/dev/{name}") for name in ("nvidia0", "nvidiactl") if Path(name).match(pattern)]

    monkeypatch.setattr(sandbox, "Path", Dev)
    assert sandbox._gpu_devices() == ["/dev/nvidia0", "/dev/nvidiactl"]


def test_a_kernel_without_landlock_is_no_error(monkeypatch):
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert landlock.restrict(read=["/usr"], write=["/tmp"]) == 0


def test_the_zygotes_environment_is_a_list_of_what_may_pass(monkeypatch):
    for name in ("SECRET_KEY", "DATABASE_URL", "REDIS_URL", "OPENAI_API_KEY", "ADAEXPLORE_DATA", "PYTHONPATH"):
        monkeypatch.setenv(name, "hidden")
    env = clean_environment("cuda:2", interpret=True)
    assert "hidden" not in env.values()
    assert env["CUDA_VISIBLE_DEVICES"] == "2" and env["TRITON_INTERPRET"] == "1"
    assert set(FIXED) <= set(env) and env["CUDA_DEVICE_MAX_CONNECTIONS"] == "4"
    assert clean_environment("cpu", interpret=False)["CUDA_VISIBLE_DEVICES"] == ""
    assert os.environ["SECRET_KEY"] == "hidden"
