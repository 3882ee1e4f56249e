"""Examines the machine and its devices: what `manage.py judge_doctor` does."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from judge.bench.device.nvml import Gpu, gpus_here
from judge.bench.exchange.wire import Message
from judge.bench.probing.known_kernel import fault_of
from judge.bench.processes.children import reachable, temporary_place
from judge.bench.runner import Bench
from judge.doctor.host import Host, read_host
from judge.doctor.layers import layers_of
from judge.doctor.probing import Probed, probe
from judge.doctor.report import DeviceReport, Fact, Report
from judge.values import JudgeError

TEMP_BYTES, SHM_BYTES = 2 << 30, 256 << 20
GOOD_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")


def device_names() -> list[str]:
    """The interpreter, and a name for every GPU that the driver lists."""
    gpus = gpus_here()
    return ["interpreter", *(f"cuda:{gpu.ordinal}" for gpu in gpus)]


def examine(
    devices: Iterable[str], *, required: Iterable[str], target: str = "sm_90", known: Iterable[Fact] = ()
) -> Report:
    """Probe every device in turn. A bench that does not start is a finding, not an error.

    `known` are facts about the installation that the caller has found out.
    """
    host, wanted = read_host(), tuple(sorted(required))
    gpus = {f"cuda:{gpu.ordinal}": gpu for gpu in gpus_here()}
    found = tuple(_device(name, target, host, wanted, gpus.get(name)) for name in devices)
    return Report(wanted, (*_machine(host), *known), found)


def _device(name: str, target: str, host: Host, required: tuple[str, ...], gpu: Gpu | None) -> DeviceReport:
    cuda = name.startswith("cuda")
    try:
        with Bench(name, target=gpu.arch if gpu and gpu.arch else target, alternatives=False) as bench:
            kernel = _known_kernel(bench)
            probed = probe(bench)
    except JudgeError as error:
        return DeviceReport(name, fault=str(error), facts=tuple(device_files() if cuda else ()))
    facts = [*_toolchain(probed, cuda), *([_gpu(gpu), *device_files()] if gpu else []), _exchange(probed, cuda), kernel]
    layers = layers_of(probed, host, required, cuda=cuda)
    return DeviceReport(name, kernel.value if kernel.state == "bad" else "", layers, tuple(facts))


def _known_kernel(bench: Bench) -> Fact:
    """Whether a plain right kernel passes; one that does not is the machine's fault, and the other facts say which."""
    began = time.monotonic()
    try:
        fault = fault_of(bench)
    except JudgeError as error:
        fault = str(error)
    if fault:
        advice = "the likely cause is marked BAD or failed here; no candidate is judged until this kernel passes"
        return Fact("known kernel", fault, "bad", advice)
    return Fact("known kernel", f"passes, in {time.monotonic() - began:.1f} s with an empty Triton cache")


def device_files(folder: Path = Path("/dev")) -> Iterable[Fact]:
    """The driver's files that this account cannot use, or that are missing."""
    closed = [str(path) for path in sorted(folder.glob("nvidia*")) if path.is_char_device() and not _usable(path)]
    if closed:
        owners = ", ".join(sorted({_group(Path(path)) for path in closed}))
        advice = f"add this account to the group that owns them ({owners}), then log in again"
        yield Fact("GPU files", f"{', '.join(closed)}: this account may not use them", "bad", advice)
    absent = [name for name in ("nvidiactl", "nvidia-uvm") if not (folder / name).exists()]
    if absent:
        advice = "run `nvidia-modprobe -u -c 0` once as root, or hand the files to the container"
        yield Fact("GPU files", f"{', '.join(str(folder / name) for name in absent)}: absent", "bad", advice)


def _usable(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK, effective_ids=True)


def _group(path: Path) -> str:
    """The name of a file's group, or its number where it has none."""
    try:
        return path.group()
    except KeyError:
        return str(path.stat().st_gid)


def _machine(host: Host) -> Iterable[Fact]:
    inside = f", in a container ({host.container})" if host.container else ""
    yield Fact("kernel", f"{host.kernel} on {host.machine}{inside}, as {'root' if host.root else 'an ordinary user'}")
    yield Fact("landlock", host.landlock)
    yield _namespaces(host)
    scope = "no Yama here" if host.ptrace_scope is None else str(host.ptrace_scope)
    yield Fact("ptrace scope", f"{scope}; the children's own filter refuses ptrace in any case")
    yield Fact("control group", host.cgroup.summary)
    yield Fact("bubblewrap", f"{host.bubblewrap}; the judge does without it")
    yield _clock(host)
    yield temp_folder(os.environ.get("TMPDIR", ""), temporary_place())
    yield _space("/dev/shm", "/dev/shm", SHM_BYTES, "give it more: mount -o remount,size=2g /dev/shm, or --shm-size 2g")


def _namespaces(host: Host) -> Fact:
    switches = {
        "kernel.unprivileged_userns_clone": host.userns_clone,
        "user.max_user_namespaces": host.max_user_namespaces,
        "kernel.apparmor_restrict_unprivileged_userns": host.apparmor_userns,
    }
    known = ", ".join(f"{name}={value}" for name, value in switches.items() if value is not None)
    return Fact("namespaces", f"{f'refused ({host.namespaces})' if host.namespaces else 'can be made'}; {known}")


def _clock(host: Host) -> Fact:
    ticks = [time.perf_counter_ns() for _ in range(2001)]
    cost_ns = (ticks[-1] - ticks[0]) / (len(ticks) - 1)
    value = f"{host.clock_source}, one reading takes {cost_ns:.0f} ns"
    if host.clock_source in GOOD_CLOCKS or cost_ns < 1000:
        return Fact("clock", value)
    return Fact("clock", value, "note", "short times are coarse with this clock source; tsc or kvm-clock is better")


def _space(name: str, path: str, wanted_bytes: int, advice: str) -> Fact:
    try:
        usage = shutil.disk_usage(path)
    except OSError as error:
        return Fact(name, f"{path}: {error.strerror}", "note", advice)
    value = f"{path}: {usage.free / 2**30:.1f} of {usage.total / 2**30:.1f} GiB free"
    return Fact(name, value) if usage.free >= wanted_bytes else Fact(name, value, "note", advice)


def temp_folder(asked: str, place: Path) -> Fact:
    """Whether children can use the temporary folder: enter it, load there what a compiler made, find room."""
    if not reachable(place):
        advice = "give the folders above it mode 711, or point TMPDIR to a folder that every account may enter"
        return Fact("temp folder", f"{place}: children of root cannot enter it, compilers find none", "bad", advice)
    if os.statvfs(place).f_flag & os.ST_NOEXEC:
        advice = "point TMPDIR to a folder on a disk without it"
        return Fact("temp folder", f"{place} is mounted noexec: what a compiler makes cannot be loaded", "bad", advice)
    space = _space("temp folder", str(place), TEMP_BYTES, "point TMPDIR to a larger disk")
    if asked and Path(asked).resolve() != place.resolve() and space.state == "ok":
        why = "children of root cannot enter" if os.access(asked, os.W_OK | os.X_OK) else "this account cannot write"
        advice = f"nothing to do; or give TMPDIR={asked} and the folders above it modes that let children in"
        return Fact("temp folder", f"{space.value}, instead of TMPDIR, which {why}", "note", advice)
    return space


def _toolchain(probed: Probed, cuda: bool) -> Iterable[Fact]:
    facts, tools = probed.facts, probed.tools
    cuda_version = f", CUDA {facts['cuda']}" if facts["cuda"] else ", no CUDA"
    yield Fact("versions", f"Python {facts['python']}, torch {facts['torch']}{cuda_version}")
    yield _triton(facts, tools)
    yield _tool("ptxas", tools["ptxas"], needed=True, advice="reinstall triton, or set TRITON_PTXAS_PATH")
    headers = "install a C compiler and Python's headers, e.g. gcc and python3-dev; CC names another compiler"
    yield _tool("C compiler", tools["compiler"], needed=cuda, advice=headers)
    if "kernel" in tools:
        yield _tool(
            "a kernel", tools["kernel"], needed=True, advice="no kernel runs in the sandbox: read the line above"
        )
    yield Fact("fork", f"a sandboxed child is ready {probed.fork_ms:.0f} ms after it was asked for")


def _triton(facts: Message, tools: Message) -> Fact:
    if not facts["triton"]:
        return Fact("triton", "absent", "bad", "install the version that torch asks for")
    tried = ", ".join(tools["tried"])
    if str(facts["triton"]).partition("+")[0] in tools["tried"]:
        return Fact("triton", f"{facts['triton']} (tried here: {tried})")
    return Fact("triton", f"{facts['triton']}, untried", "note", f"the interpreter device needs one of {tried}")


def _tool(name: str, found: Message, *, needed: bool, advice: str) -> Fact:
    said = ": ".join(part for part in (str(found.get("path", "")), str(found["says"])) if part)
    if found["works"]:
        return Fact(name, f"{said or 'works'}{'' if needed else '; not needed on this device'}")
    if not needed:
        return Fact(name, f"{said}; not needed on this device")
    return Fact(name, said, "bad", advice)


def _gpu(gpu: Gpu) -> Fact:
    return Fact("GPU", f"{gpu.title}, {gpu.arch}, {gpu.memory_mb / 1024:.0f} GiB, driver {gpu.driver}, {gpu.uuid}")


def _exchange(probed: Probed, cuda: bool) -> Fact:
    found = probed.exchange
    kind = {"ipc": "CUDA IPC, in place", "memfd": "shared host memory", "host-copies": "host copies"}.get(
        str(found["kind"]), "none"
    )
    if not found["works"]:
        return Fact("exchange", f"broken ({kind}) {found['refused']}".strip(), "bad", "children share no memory here")
    if cuda and found["kind"] != "ipc":
        why = f"{kind}: the driver refuses CUDA IPC ({found['refused']})"
        return Fact("exchange", why, "note", "large problems are slower to judge; containers need --ipc=host for it")
    return Fact("exchange", kind)
