"""Every call of every sandbox layer made to fail, or to report success without an effect, in a child of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from judge.bench.sandboxing import landlock, seccomp

ROOT = Path(__file__).resolve().parents[3]

# One forked process for each case and minimum: it spoils one call, then goes through the life of a child, whose role
# only tells that it was reached. A case is (kind, what, which one of it, error number; 0 for a lie).
CHILDREN = """
import ctypes, json, os, resource, sys, types
from pathlib import Path
from judge.bench.exchange.wire import Channel
from judge.bench.processes import child
from judge.bench.sandboxing import landlock, mounts, sandbox, seccomp, threads

def spoil(owner, name, chosen, error, result=0):
    real = getattr(owner, name)
    def call(*arguments):
        if not chosen(*arguments):
            return real(*arguments)
        if not error:
            return result
        if owner is libc:
            ctypes.set_errno(error)
            return -1
        raise OSError(error, os.strerror(error))
    setattr(owner, name, call)

class Libc:
    def __getattr__(self, name):
        return getattr(real_libc, name)

real_libc, libc = sandbox.LIBC, Libc()
sandbox.LIBC = landlock.LIBC = mounts.LIBC = seccomp.LIBC = libc
unwritable = None

def prepare(kind, what, which, error):
    if kind == "landlock":  # the call with a null pointer only asks for the version
        spoil(libc, "syscall", lambda number, second, *_: number == what and second is not None, error)
    elif kind == "call":  # by its name, whatever its number is here
        number = mounts.calls.here().number(what)
        spoil(libc, "syscall", lambda given, *_: getattr(given, "value", given) == number, error, which or 0)
    elif kind == "prctl":
        spoil(libc, "prctl", lambda option, *rest: option == what and (which is None or rest[0] == which), error)
    elif kind == "libc":
        spoil(libc, what, lambda first, *_: which is None or first == which, error)
    elif kind == "mount":
        spoil(libc, "mount", lambda source, target, kind, flags, options: (kind == b"tmpfs") if what == "tmpfs" else
              flags.value & what, error)
    elif kind == "threads":
        def failing():
            raise OSError(error, os.strerror(error))
        threads.statuses = failing
    elif kind == "limit":
        spoil(resource, "setrlimit", lambda limit, _: limit == getattr(resource, what), error)
    elif kind == "exempt":
        spoil(resource, "setrlimit", lambda limit, pair: limit == resource.RLIMIT_NPROC and pair[0] == 0, 0)
    elif kind == "file":
        real_write, real_read = Path.write_text, Path.read_text
        def write(path, text):
            if str(path) == what:
                raise OSError(error, os.strerror(error))
            return real_write(path, text)
        def read(path):
            if str(path) == what:
                raise OSError(error, os.strerror(error))
            return real_read(path)
        Path.write_text, Path.read_text = write, read
    elif kind == "value":
        def refuse(limit, pair):
            raise ValueError("current limit exceeds maximum limit")
        resource.setrlimit = refuse

def live(case, required, folder):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        ran = []
        role = types.ModuleType("judge.bench.deciding.referee")
        role.run = ran.append
        sys.modules[role.__name__] = role
        boss, theirs = Channel.pair()
        boss.send({"role": "referee"})
        order = {"folder": folder, "sandbox": True, "memory_mb": 512, "cpu_s": 20, "allow_fork": True,
                 "allow_memfd": True, "required": required}
        said = {"layers": {}, "error": "", "ran": False}
        try:
            prepare(*case)
            child._serve(theirs.detach(), order, {"device": "cpu", "nice": 0, "target": "", "adapter": None})
        except Exception as error:
            said["error"] = f"{type(error).__name__}: {error}"
        said["ran"] = bool(ran)
        if not said["error"]:
            said["layers"] = boss.receive(5.0)["sandbox"]
        os.write(writer, json.dumps(said).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        text = file.read()
    os.waitpid(pid, 0)
    return json.loads(text)

given = json.load(sys.stdin)
print(json.dumps({name: [live(case, [layer], given["folder"]), live(case, [], given["folder"])]
                  for name, layer, case in given["cases"]}))
"""

EPERM, EFAULT, EINVAL, ENOSPC = 1, 14, 22, 28
CREATE, ADD, RESTRICT = 444, 445, 446
DUMPABLE, PARENT_DEATH, DROP, NO_NEW_PRIVS = 4, 1, 24, 38
NEW_MOUNTS, BIND, PRIVATE = 0x20000, 0x1000, 0x40000
REFUSED, SHARED = "Operation not permitted", "still shared"  # followed by which
UNMAPPED = f"ids are not mapped: {REFUSED}"
IGNORED_RULES = "the kernel took the rules and does not apply them"
IGNORED_FILTER = "the kernel took the filter and does not apply it"
IGNORED_LIMIT = "the kernel took a resource limit and does not apply it"
IGNORED_SWITCH = "the kernel took no_new_privs and does not apply it"
IGNORED_TMPFS = "the kernel took a mount and does not apply it"
IGNORED_MOUNT = "the kernel took a mount as read-only and does not apply it"
IGNORED_ROOT = "the kernel took the new root folder and does not apply it"
EXEMPT = "the kernel exempts this process from the limit"

# name -> (layer, state, reason, case)
CASES = {
    "landlock create": ("landlock", "failed", REFUSED, ("landlock", CREATE, None, EPERM)),
    "landlock rule": ("landlock", "failed", REFUSED, ("landlock", ADD, None, EPERM)),
    "landlock restrict": ("landlock", "failed", REFUSED, ("landlock", RESTRICT, None, EPERM)),
    "landlock restrict, a lie": ("landlock", "failed", IGNORED_RULES, ("landlock", RESTRICT, None, 0)),
    "seccomp": ("seccomp", "failed", "Bad address", ("call", "seccomp", None, EFAULT)),
    "seccomp, a lie": ("seccomp", "failed", IGNORED_FILTER, ("call", "seccomp", None, 0)),
    "seccomp, a thread": ("seccomp", "failed", "thread 17 does not take the filter", ("call", "seccomp", 17, 0)),
    "threads unread": ("seccomp", "failed", REFUSED, ("threads", None, None, EPERM)),
    "threads unread, capabilities": ("capabilities", "failed", REFUSED, ("threads", None, None, EPERM)),
    "threads unread, no_new_privs": ("no_new_privs", "failed", REFUSED, ("threads", None, None, EPERM)),
    "threads unread, landlock": ("landlock", "failed", REFUSED, ("threads", None, None, EPERM)),
    "no mount namespace": ("files", "unavailable", "No space left on device", ("libc", "unshare", NEW_MOUNTS, ENOSPC)),
    "no mount namespace, a lie": ("files", "failed", REFUSED, ("libc", "unshare", NEW_MOUNTS, 0)),
    "private mounts": ("files", "failed", REFUSED, ("mount", PRIVATE, None, EPERM)),
    "tmpfs": ("files", "failed", REFUSED, ("mount", "tmpfs", None, EPERM)),
    "tmpfs, a lie": ("files", "failed", IGNORED_TMPFS, ("mount", "tmpfs", None, 0)),
    "bind": ("files", "failed", REFUSED, ("mount", BIND, None, EPERM)),
    "bind, a lie": ("files", "failed", "Invalid argument", ("mount", BIND, None, 0)),
    "read-only": ("files", "failed", REFUSED, ("call", "mount_setattr", None, EPERM)),
    "read-only, a lie": ("files", "failed", IGNORED_MOUNT, ("call", "mount_setattr", None, 0)),
    "pivot": ("files", "failed", REFUSED, ("call", "pivot_root", None, EPERM)),
    "pivot, a lie": ("files", "failed", IGNORED_ROOT, ("call", "pivot_root", None, 0)),
    "old root": ("files", "failed", REFUSED, ("libc", "umount2", None, EPERM)),
    "old root, a lie": ("files", "failed", IGNORED_ROOT, ("libc", "umount2", None, 0)),
    "files without ids": (
        "files",
        "unavailable",
        "no user namespace with mapped ids",
        ("file", "/proc/self/uid_map", None, EPERM),
    ),
    "unshare": ("namespaces", "unavailable", "No space left on device", ("libc", "unshare", None, ENOSPC)),
    "unshare, a lie": ("namespaces", "failed", SHARED, ("libc", "unshare", None, 0)),
    "setgroups": ("namespaces", "partial", UNMAPPED, ("file", "/proc/self/setgroups", None, EPERM)),
    "uid map": ("namespaces", "partial", UNMAPPED, ("file", "/proc/self/uid_map", None, EPERM)),
    "gid map": ("namespaces", "partial", UNMAPPED, ("file", "/proc/self/gid_map", None, EPERM)),
    "core": ("rlimits", "failed", REFUSED, ("limit", "RLIMIT_CORE", None, EPERM)),
    "file size": ("rlimits", "failed", REFUSED, ("limit", "RLIMIT_FSIZE", None, EPERM)),
    "descriptors": ("rlimits", "failed", REFUSED, ("limit", "RLIMIT_NOFILE", None, EPERM)),
    "processor": ("rlimits", "failed", REFUSED, ("limit", "RLIMIT_CPU", None, EPERM)),
    "a limit, a lie": ("rlimits", "failed", IGNORED_LIMIT, ("limit", "RLIMIT_FSIZE", None, 0)),
    "a limit out of range": ("rlimits", "failed", "current limit exceeds maximum limit", ("value", None, None, 0)),
    "memory": ("memory_limit", "failed", REFUSED, ("limit", "RLIMIT_AS", None, EPERM)),
    "memory, a lie": ("memory_limit", "failed", IGNORED_LIMIT, ("limit", "RLIMIT_AS", None, 0)),
    "memory unread": ("memory_limit", "failed", REFUSED, ("file", "/proc/self/statm", None, EPERM)),
    "processes": ("process_limit", "failed", REFUSED, ("limit", "RLIMIT_NPROC", None, EPERM)),
    "processes, a lie": ("process_limit", "failed", IGNORED_LIMIT, ("limit", "RLIMIT_NPROC", None, 0)),
    "processes, exempt": ("process_limit", "failed", EXEMPT, ("exempt", None, None, 0)),
    "no namespaces": ("process_limit", "unavailable", "", ("libc", "unshare", None, EPERM)),
    "no_new_privs": ("no_new_privs", "failed", REFUSED, ("prctl", NO_NEW_PRIVS, None, EPERM)),
    "no_new_privs, a lie": ("no_new_privs", "failed", IGNORED_SWITCH, ("prctl", NO_NEW_PRIVS, None, 0)),
    "bounding set": ("capabilities", "failed", "Bad address", ("prctl", DROP, 7, EFAULT)),
    "capabilities": ("capabilities", "failed", REFUSED, ("libc", "capset", None, EPERM)),
    "capabilities, a lie": ("capabilities", "failed", "capabilities are left", ("libc", "capset", None, 0)),
    "capabilities unread": ("capabilities", "failed", "Bad address", ("libc", "capget", None, EFAULT)),
    "capabilities, another lie": ("capabilities", "failed", "capabilities are left", ("libc", "capget", None, 0)),
}
DEADLY = {
    "dumpable": ("rlimits", ("prctl", DUMPABLE, None, EPERM)),
    "dumpable, a lie": ("rlimits", ("prctl", DUMPABLE, None, 0)),
    "parent death": ("rlimits", ("prctl", PARENT_DEATH, None, EPERM)),
}
HARMLESS = {
    "a capability that is unknown": ("capabilities", ("prctl", DROP, 7, EINVAL)),
    "a bounding set that is not ours to drop from": ("capabilities", ("prctl", DROP, 7, EPERM)),
    "nothing": ("rlimits", ("none", None, None, 0)),
}


@pytest.fixture(scope="module")
def children(tmp_path_factory):
    rows = [(name, layer, case) for name, (layer, _, _, case) in CASES.items()]
    rows += [(name, layer, case) for name, (layer, case) in {**DEADLY, **HARMLESS}.items()]
    run = subprocess.run(
        [sys.executable, "-c", CHILDREN],
        input=json.dumps({"folder": str(tmp_path_factory.mktemp("child")), "cases": rows}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture
def whole(children):
    """What this machine offers when nothing fails."""
    return children["nothing"][1]["layers"]


@pytest.mark.parametrize("name", CASES)
def test_a_layer_that_fails_says_so_with_the_reason_and_nothing_runs_where_it_is_required(name, children, whole):
    layer, state, reason, _ = CASES[name]
    if not whole[layer].startswith("active") or (name == "capabilities, a lie" and whole["namespaces"] != "active"):
        pytest.skip(f"{layer} is {whole[layer]} on this machine")
    required, free = children[name]
    for said in (required, free):
        if reason is SHARED:
            assert said["layers"][layer].startswith(f"{state} ({reason}: "), said
        else:
            assert said["layers"][layer] == (f"{state} ({reason})" if reason else state), said
    assert not required["ran"] and not required["error"]
    assert free["ran"], free  # the same child with nothing required goes on: the refusal is about this layer
    if layer in ("landlock", "seccomp", "files") and not name.startswith(("threads", "files")):
        assert {**free["layers"], layer: ""} == {**whole, layer: ""}  # the other layers are set up all the same


def test_namespaces_that_are_still_shared_are_named(children, whole):
    if whole["namespaces"] != "active":
        pytest.skip(f"namespaces are {whole['namespaces']} on this machine")
    kinds = ", ".join(rf"{kind}:\[\d+\]" for kind in ("ipc", "net", "user", "uts"))
    assert re.fullmatch(rf"failed \(still shared: {kinds}\)", children["unshare, a lie"][1]["layers"]["namespaces"])


@pytest.mark.parametrize("name", DEADLY)
def test_a_child_that_cannot_be_closed_to_its_siblings_or_tied_to_its_parent_ends(name, children):
    for said in children[name]:
        reason = "siblings could read this process" if name == "dumpable, a lie" else REFUSED
        assert said["error"].endswith(f"] {reason}") and not said["ran"] and not said["layers"]


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_looks_like_a_failure_leaves_the_layer_active(name, children):
    layer, _ = HARMLESS[name]
    for said in children[name]:
        assert said["layers"][layer] == "active" and said["ran"], said


def test_this_machine_shows_the_strong_layers_it_has(whole):
    assert whole["landlock"].startswith("active") == (landlock.abi() > 0)
    assert (whole["seccomp"] == "active") == seccomp.available()
    for name in ("rlimits", "memory_limit", "capabilities", "no_new_privs"):
        assert whole[name] == "active"  # every kernel has these


def test_namespaces_and_the_process_limit_are_there_where_the_kernel_makes_namespaces(whole):
    flags = 0x10000000 | 0x40000000 | 0x08000000 | 0x04000000  # CLONE_NEWUSER, NEWNET, NEWIPC, NEWUTS
    script = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({flags}) != 0)"
    made = subprocess.run([sys.executable, "-I", "-S", "-c", script]).returncode == 0
    assert [whole[name].startswith(("active", "partial")) for name in ("namespaces", "process_limit")] == [made, made]
