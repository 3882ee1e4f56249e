"""The doctor tries the layers for real, sees a machine that lacks one, and says what to change there."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from judge.bench.probing.attempts import ATTEMPTS, THROUGH
from judge.bench.sandboxing import landlock, seccomp
from judge.doctor.host import Cgroup, Host
from judge.doctor.layers import PROTECTS, layers_of
from judge.doctor.probing import Probed
from judge.doctor.report import DeviceReport, Fact, Report

ROOT = Path(__file__).resolve().parents[3]

HOST = Host(
    kernel="6.8.0-31-generic",
    machine="x86_64",
    container="",
    root=False,
    lsm=("capability", "landlock"),
    landlock="abi 4",
    seccomp=True,
    filtered=False,
    namespaces="",
    userns_clone=None,
    max_user_namespaces=15000,
    apparmor_userns=None,
    ptrace_scope=1,
    cgroup=Cgroup("/", 2, None, None, False),
    bubblewrap="absent",
    clock_source="tsc",
)

PROBED = Probed(
    facts={"python": "3.12", "torch": "2.13", "triton": "3.7.1", "cuda": None},
    layers=dict.fromkeys(PROTECTS, "active"),
    inside={attempt.name: "EPERM" for attempt in ATTEMPTS},
    outside={attempt.name: THROUGH for attempt in ATTEMPTS},
    exchange={"kind": "memfd", "works": True, "refused": ""},
    tools={},
    fork_ms=9.0,
    folder_wiped=True,
    outlived_s=0.01,
)


def layer(name: str, probed: Probed = PROBED, *, required: tuple[str, ...] = (), cuda: bool = False, host: Host = HOST):
    return next(row for row in layers_of(probed, host, required, cuda=cuda) if row.name == name)


def test_a_layer_that_claims_to_be_active_and_lets_something_through_is_broken() -> None:
    leaky = dataclasses.replace(PROBED, inside={**PROBED.inside, "read_file": THROUGH})
    found = layer("landlock", leaky)
    assert (found.state, found.fails) == ("BROKEN", True)
    assert [row.words for row in found.tried if row.result == "through"] == ["read a file outside"]


def test_what_fails_without_a_sandbox_too_counts_for_no_layer() -> None:
    strict = dataclasses.replace(PROBED, outside={**PROBED.outside, "trace_parent": "EPERM"})
    results = {row.words: row.result for row in layer("seccomp", strict).tried}
    assert results["trace the parent"] == "moot" and results["signal the parent"] == "held"


def test_landlock_that_leaves_out_a_driver_s_threads_is_partial_with_advice_and_enough_for_auto() -> None:
    claim = "partial (3 threads of the driver without it; abi 7)"
    said = dataclasses.replace(PROBED, layers={**PROBED.layers, "landlock": claim, "files": "unavailable"})
    found = layer("landlock", said, required=("landlock",), cuda=True)
    assert (found.state, found.claim, found.fails) == ("partial", claim, False) and "Linux 7.0" in found.advice[0]
    files = layer("files", said, required=("files",), cuda=True)
    assert files.fails and "a driver's threads reach the files of this account" in files.advice[0]
    leaky = dataclasses.replace(said, inside={**PROBED.inside, "read_file": THROUGH})
    assert layer("landlock", leaky, cuda=True).state == "BROKEN"


@pytest.mark.parametrize("name", ["namespaces", "landlock"])
def test_a_missing_layer_fails_only_where_it_is_required(name) -> None:
    without = dataclasses.replace(PROBED, layers={**PROBED.layers, name: "unavailable"})
    assert not layer(name, without).fails
    assert layer(name, without, required=(name,)).fails


@pytest.mark.parametrize("name", ["landlock", "rlimits", "no_new_privs"])
def test_a_layer_that_failed_says_why_and_what_to_do(name) -> None:
    said = dataclasses.replace(PROBED, layers={**PROBED.layers, name: "failed (Bad address)"})
    found = layer(name, said)
    assert found.state == "failed" and found.claim == "failed (Bad address)" and found.advice
    assert not found.fails and layer(name, said, required=(name,)).fails
    if name != "landlock":
        assert "failed (Bad address)" in found.advice[0]


def test_a_child_that_outlives_its_server_fails_in_any_case() -> None:
    assert layer("parent_death", dataclasses.replace(PROBED, outlived_s=None)).fails
    assert layer("private_folder", dataclasses.replace(PROBED, folder_wiped=False)).fails


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("landlock", {"landlock": "ENOSYS", "kernel": "5.4.0"}, "5.13 or newer"),
        ("landlock", {"landlock": "ENOSYS"}, "CONFIG_SECURITY_LANDLOCK"),
        ("landlock", {"landlock": "EOPNOTSUPP", "lsm": ("capability", "apparmor")}, "lsm=landlock,apparmor"),
        ("landlock", {"landlock": "EPERM", "container": "docker"}, "--security-opt seccomp=unconfined"),
        ("landlock", {"landlock": "EPERM", "container": "kubernetes"}, "seccompProfile"),
        ("seccomp", {"machine": "riscv64"}, "x86_64 and aarch64, not riscv64"),
        ("seccomp", {"machine": "aarch64"}, "CONFIG_SECCOMP_FILTER"),
        ("namespaces", {"userns_clone": 0}, "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("namespaces", {"max_user_namespaces": 0}, "sysctl -w user.max_user_namespaces"),
        ("namespaces", {"apparmor_userns": 1}, "apparmor_restrict_unprivileged_userns=0"),
        ("namespaces", {"container": "podman"}, "profile that allows unshare"),
        ("files", {"namespaces": "EPERM"}, "Landlock guards the same files"),
        ("files", {"container": "docker"}, "--security-opt apparmor=unconfined"),
        ("process_limit", {"container": "docker"}, "--pids-limit"),
        ("process_limit", {}, "TasksMax"),
        ("process_limit", {"cgroup": Cgroup("/a", 2, 500, None, True)}, "500 processes"),
    ],
)
def test_the_advice_is_about_this_machine(name, changes, said) -> None:
    gone = dataclasses.replace(PROBED, layers={**PROBED.layers, name: "unavailable"})
    found = layer(name, gone, host=dataclasses.replace(HOST, **changes))
    assert said in " ".join(found.advice)


CALLS = "landlock_create_ruleset, landlock_add_rule and landlock_restrict_self"
SPACES = "unshare and clone with new namespaces"
FREE = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
FILTERED = "Whoever started this process put it under a system call filter: let it allow"
REFUSED = "The container's filter refuses it: start it with"
UNCOUNTED = (
    "Without a user namespace the kernel does not count a child's processes on their own. Bound the whole service:"
)
UNBOUNDED = "CUDA works under no address-space limit, and nothing else bounds host memory here:"
GROUPS = "into its systemd unit (Delegate=yes lets us make groups of our own)."


@pytest.mark.parametrize(
    ("name", "changes", "advice"),
    [
        ("landlock", {"landlock": "EOPNOTSUPP", "lsm": ("capability", "landlock", "yama", "bpf")},
         ["The kernel has Landlock but does not start it: boot with lsm=landlock,yama,bpf."]),
        ("landlock", {"landlock": "EOPNOTSUPP", "lsm": ()},
         ["The kernel has Landlock but does not start it: boot with lsm=landlock."]),
        ("landlock", {"landlock": "EPERM"}, [f"{FILTERED} {CALLS}."]),
        ("landlock", {"landlock": "ENOSYS", "filtered": True}, [f"{FILTERED} {CALLS}."]),
        ("landlock", {"landlock": "EPERM", "container": "podman"},
         [f"{REFUSED} {FREE}, or with a profile that allows {CALLS}."]),
        ("landlock", {"landlock": "ENOSYS", "kernel": "5.12.19"},
         ["Kernel 5.12.19 is older than Landlock: use 5.13 or newer."]),
        ("landlock", {"landlock": "ENOSYS", "kernel": "5.13.0"},
         ["Kernel 5.13.0 was built without Landlock: use one with CONFIG_SECURITY_LANDLOCK=y."]),
        ("landlock", {"landlock": "ENOSYS", "kernel": "odd"},
         ["Kernel odd is older than Landlock: use 5.13 or newer."]),
        ("landlock", {"landlock": "ENOSYS", "kernel": "x.y"},
         ["Kernel x.y is older than Landlock: use 5.13 or newer."]),
        ("seccomp", {"machine": "riscv64"},
         ["The filter knows x86_64 and aarch64, not riscv64: judge only code you trust here."]),
        ("seccomp", {}, ["Kernel 6.8.0-31-generic takes no filters: use one with CONFIG_SECCOMP_FILTER=y."]),
        ("namespaces", {"userns_clone": 0, "max_user_namespaces": 0, "apparmor_userns": 1, "container": "docker"},
         ["Switch user namespaces on: sysctl -w kernel.unprivileged_userns_clone=1",
          "Allow user namespaces: sysctl -w user.max_user_namespaces=15000",
          "AppArmor keeps user namespaces empty: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give "
          "this Python a profile with the rule `userns,`."]),
        ("namespaces", {"userns_clone": 1, "apparmor_userns": 0},
         ["The kernel refuses new namespaces (in the child only)."]),
        ("namespaces", {"namespaces": "ENOSPC"}, ["The kernel refuses new namespaces (ENOSPC)."]),
        ("namespaces", {"filtered": True}, [f"{FILTERED} {SPACES}."]),
        ("namespaces", {"container": "kubernetes"},
         ["The pod's system call filter refuses it: securityContext.seccompProfile.type: Unconfined, or a Localhost "
          f"profile that allows {SPACES}."]),
        ("process_limit", {"cgroup": Cgroup("/a", 2, 5000, None, True)},
         ["The control group bounds all of this service at 5,000 processes; that must do."]),
        ("process_limit", {}, [f"{UNCOUNTED} put TasksMax=4096 {GROUPS}"]),
        ("process_limit", {"container": "podman"}, [f"{UNCOUNTED} start the container with --pids-limit 4096."]),
        ("process_limit", {"container": "kubernetes"}, [f"{UNCOUNTED} set resources.limits of the pod."]),
        ("memory_limit", {}, [f"{UNBOUNDED} put MemoryMax=90% {GROUPS}"]),
        ("memory_limit", {"container": "docker"}, [f"{UNBOUNDED} start the container with --memory 64g."]),
        ("memory_limit", {"cgroup": Cgroup("/", 2, None, 3 << 30, False)},
         ["CUDA works under no address-space limit; the control group bounds the service at 3 GiB."]),
        ("rlimits", {}, []),
    ],
)  # fmt: skip
def test_the_whole_advice(name, changes, advice) -> None:
    gone = dataclasses.replace(PROBED, layers={**PROBED.layers, name: "unavailable"})
    assert list(layer(name, gone, cuda=True, host=dataclasses.replace(HOST, **changes)).advice) == advice
    if name == "memory_limit":
        assert layer(name, gone, cuda=False, host=dataclasses.replace(HOST, **changes)).advice == ()


@pytest.mark.parametrize("name", PROTECTS)
def test_an_active_layer_needs_no_advice_and_one_that_lets_something_through_gets_one_whatever_it_says(name) -> None:
    assert layer(name).state == "active" and layer(name).advice == () and not layer(name, required=(name,)).fails
    tried = [attempt.name for attempt in ATTEMPTS if attempt.layer == name]
    for one in tried:
        leaky = dataclasses.replace(PROBED, inside={**PROBED.inside, one: THROUGH})
        found = layer(name, leaky)
        assert (found.state, found.fails) == ("BROKEN", True)
        assert found.advice == ("This is a fault of the judge, not of the machine: please report it with this output.",)
        assert {(row.result, row.how) for row in found.tried} <= {("held", "EPERM"), ("through", "")}
        assert found.protects == PROTECTS[name]
        for other in PROTECTS:
            assert other == name or layer(other, leaky).state == "active"
    if tried:
        with pytest.raises(KeyError):  # what was not tried is never shown as stopped
            layer(name, dataclasses.replace(PROBED, inside={}))
    silent = dataclasses.replace(PROBED, layers={})
    watched = name in ("environment", "private_folder", "parent_death")
    assert layer(name, silent).state == ("active" if watched else "off")


def test_what_no_child_reports_is_watched() -> None:
    slow = dataclasses.replace(PROBED, outlived_s=1.5)
    assert layer("parent_death", slow).claim == "active (gone after 1500 ms)"
    alive = layer("parent_death", dataclasses.replace(PROBED, outlived_s=None))
    assert (alive.state, alive.claim) == ("BROKEN", "BROKEN: a child still lived after its fork server was killed")
    there = layer("private_folder", dataclasses.replace(PROBED, folder_wiped=False))
    assert (there.state, there.claim) == ("BROKEN", "BROKEN: the folder was still there")
    claimed = dataclasses.replace(PROBED, layers={**PROBED.layers, "parent_death": "active"}, outlived_s=None)
    assert layer("parent_death", claimed).fails, "a child's own word about it counts for nothing"


def test_a_secret_that_is_seen_needs_no_control() -> None:
    seen = dataclasses.replace(PROBED, outside={**PROBED.outside, "see_secret": "EPERM"})
    assert {row.result for row in layer("environment", seen).tried} == {"held"}


def test_without_an_address_space_limit_cuda_is_told_what_else_bounds_memory() -> None:
    off = dataclasses.replace(PROBED, layers={**PROBED.layers, "memory_limit": "off"})
    assert "MemoryMax" in layer("memory_limit", off, cuda=True).advice[0]
    bounded = dataclasses.replace(HOST, cgroup=Cgroup("/", 2, None, 64 << 30, False))
    assert "64 GiB" in layer("memory_limit", off, cuda=True, host=bounded).advice[0]


def test_a_bad_fact_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="what to do"):
        Fact("ptxas", "absent", "bad")


def test_a_bench_that_does_not_start_makes_the_machine_unfit() -> None:
    report = Report(("rlimits",), (), (DeviceReport("cuda:0", fault="the fork server did not start"),))
    assert not report.healthy
    assert "did not start" in "\n".join(report.lines()) and "cuda:0" in report.conclusion()


# -- for real -------------------------------------------------------------------------------------------------------


@pytest.mark.bench
def test_every_attempt_gets_through_without_a_sandbox_and_none_through_ours(settings) -> None:
    settings.JUDGE_MIN_SANDBOX = "auto"
    out = StringIO()
    call_command("judge_doctor", device=["cpu"], json=True, stdout=out)
    (device,) = json.loads(out.getvalue())["devices"]
    for row in device["layers"]:
        assert row["state"] == "active" or row["name"] == "namespaces", row
        if row["state"] == "active":
            assert {tried["result"] for tried in row["tried"]} <= {"held", "moot"}, row
    if os.geteuid() == 0 and not Path("/.dockerenv").exists():
        assert all(tried["result"] == "held" for row in device["layers"] for tried in row["tried"])
    facts = {row["name"]: row for row in device["facts"]}
    assert facts["exchange"]["value"] == "shared host memory"
    assert "fork" in facts and "triton" in facts


PREPARED = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
{prepare}
sys.argv = ["manage.py", "judge_doctor", "--device", "cpu", "--json"]
os.environ["DJANGO_SETTINGS_MODULE"] = "adaexplore_site.settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""

# A kernel without user namespaces, as far as what runs below can tell.
NO_NAMESPACES = """
libc = ctypes.CDLL(None, use_errno=True)
uid = os.geteuid()
if libc.unshare(0x10000000):
    sys.exit(77)
open("/proc/self/setgroups", "w").write("deny")
open("/proc/self/uid_map", "w").write(f"0 {uid} 1")
open("/proc/sys/user/max_user_namespaces", "w").write("0")
"""

# A container whose profile knows no Landlock.
NO_LANDLOCK = """
import struct
from judge.bench.sandboxing import seccomp
from judge.bench.sandboxing.landlock import CREATE
code = b"".join((seccomp._op(seccomp.LOAD, 0, 0, seccomp.NR), *seccomp._deny(CREATE, seccomp.ENOSYS),
                 seccomp._op(seccomp.RETURN, 0, 0, seccomp.ALLOW)))
buffer = ctypes.create_string_buffer(code, len(code))
header = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
if libc.prctl(seccomp.PR_SET_SECCOMP, 2, ctypes.c_char_p(header), 0, 0):
    sys.exit(77)
"""


def doctor_on(prepare: str, minimum: str, data: Path) -> tuple[int, dict]:
    run = subprocess.run(
        [sys.executable, "-c", PREPARED.format(prepare=prepare), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=ROOT,
        env={**os.environ, "JUDGE_MIN_SANDBOX": minimum, "ADAEXPLORE_DATA": str(data)},
        check=False,
    )
    if run.returncode == 77:
        pytest.skip("this machine cannot be made to look like that")
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout)


@pytest.mark.bench
def test_a_machine_without_namespaces_is_seen_and_told_the_switch(tmp_path) -> None:
    if not Path("/proc/sys/user/max_user_namespaces").exists():
        pytest.skip("no user namespaces to take away")
    status, report = doctor_on(NO_NAMESPACES, "auto,namespaces", tmp_path)
    found = {row["name"]: row for row in report["devices"][0]["layers"]}
    assert status == 1 and not report["healthy"]
    assert found["namespaces"]["state"] == "unavailable"
    assert "user.max_user_namespaces" in " ".join(found["namespaces"]["advice"])
    assert "share the machine's network" in {
        t["words"] for t in found["namespaces"]["tried"] if t["result"] == "through"
    }


@pytest.mark.bench
@pytest.mark.skipif(landlock.abi() == 0 or not seccomp.available(), reason="needs Landlock to take away")
def test_a_machine_without_landlock_passes_with_auto(tmp_path) -> None:
    status, report = doctor_on(NO_LANDLOCK, "auto", tmp_path)
    found = {row["name"]: row for row in report["devices"][0]["layers"]}
    assert status == 0
    assert found["landlock"]["state"] == "unavailable" and found["landlock"]["advice"]
    results = {t["words"]: t["result"] for t in found["landlock"]["tried"]}
    assert results["read a file outside"] == ("held" if found["files"]["state"] == "active" else "through")


def test_an_unknown_device_or_layer_is_named(settings) -> None:
    with pytest.raises(CommandError, match="cuda:99"):
        call_command("judge_doctor", device=["cuda:99"])
    settings.JUDGE_MIN_SANDBOX = "landlok"
    with pytest.raises(CommandError, match="unknown sandbox layers: landlok"):
        call_command("judge_doctor", device=["cpu"])
