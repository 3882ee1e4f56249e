"""The child that tries the sandbox, the exchange of tensors and the compilers from inside. It runs no foreign code."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

from judge.bench.device.gpu import IpcRefused, settle
from judge.bench.exchange.arenas import offer_arena, open_arena
from judge.bench.exchange.wire import Channel, Message
from judge.bench.probing import attempts
from judge.bench.processes.child import Assignment

GIVEN, TAKEN, BYTES = 7, 9, 1 << 16
TOOL_S = 60.0
C_SOURCE = "#include <Python.h>\nint answer(void) { return PY_MAJOR_VERSION; }\n"


def run(assignment: Assignment) -> None:
    """Role "probe": do the part that was asked for, report what came of it, stay until a message comes."""
    assignment.boss.send({"probe": _PARTS[assignment.payload["part"]](assignment)})
    if assignment.payload.get("stay"):
        assignment.boss.receive(None)


def _attempts(assignment: Assignment) -> Message:
    return dict(attempts.try_all(attempts.Targets(**assignment.payload["targets"])))


def _give(assignment: Assignment) -> Message:
    """Offer memory to the neighbour and see whether it can be shared: in place first, by copies otherwise."""
    link = Channel(socket.socket(fileno=assignment.links[0]))
    refused = ""
    for in_place in (True, False):
        try:
            arena, offer, fds = offer_arena(BYTES, assignment.device, in_place=in_place)
        except IpcRefused as error:
            refused = str(error)
            continue
        arena.memory.fill_(GIVEN)
        settle(assignment.device)
        link.send({"offer": offer}, fds)
        for fd in fds:
            os.close(fd)
        reply = link.receive(TOOL_S)
        if "refused" in reply:
            refused = str(reply["refused"])
            continue
        settle(assignment.device)
        right = bool(reply["seen"]) and int(arena.memory[0]) == TAKEN
        link.send({"done": True})
        return {"kind": arena.kind, "works": right, "refused": refused}
    link.send({"done": True})
    return {"kind": "none", "works": False, "refused": refused}


def _take(assignment: Assignment) -> Message:
    link = Channel(socket.socket(fileno=assignment.links[0]))
    while "done" not in (message := link.receive(TOOL_S)):
        try:
            arena = open_arena(message["offer"], link.take_fds(), assignment.device)
        except IpcRefused as error:
            link.send({"refused": str(error)})
            continue
        seen = int(arena.memory[BYTES - 1]) == GIVEN
        arena.memory.fill_(TAKEN)
        settle(assignment.device)
        link.send({"seen": seen})
    return {}


def _tools(assignment: Assignment) -> Message:
    from judge.bench.interpreting.interpreter import TESTED_VERSIONS

    found: Message = {"compiler": _compiler(), "ptxas": _ptxas(), "tried": list(TESTED_VERSIONS)}
    if assignment.device != "cpu":
        found["kernel"] = _kernel(assignment.device)
    return found


def _compiler() -> Message:
    """Build and load a C extension, as Triton does with the launcher of every kernel."""
    path = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
    if not path:
        return {"works": False, "says": "no C compiler is on PATH"}
    Path("probe.c").write_text(C_SOURCE)
    include = sysconfig.get_paths()["include"]
    said = _said([path, "probe.c", "-shared", "-fPIC", f"-I{include}", "-o", "probe.so"])
    if said["works"]:
        try:
            said["works"] = ctypes.CDLL("./probe.so").answer() == 3
        except OSError as error:
            return {"works": False, "path": path, "says": f"what it built does not load: {error}"}
    return {**said, "path": path}


def _ptxas() -> Message:
    try:
        from triton.backends import nvidia
    except ImportError:
        return {"works": False, "says": "Triton has no NVIDIA backend here"}
    own = Path(str(nvidia.__file__)).parent / "bin" / "ptxas"
    path = os.environ.get("TRITON_PTXAS_PATH") or str(own)
    said = _said([path, "--version"])
    return {**said, "path": path}


def _kernel(device: str) -> Message:
    """Compile one kernel in the sandbox and launch it on the device."""
    import torch

    from judge.bench.processes.warm_up import copy_one

    began = time.monotonic()
    try:
        source, copy = torch.full((1,), 5.0, device=device), torch.zeros(1, device=device)
        copy_one[(1,)](source, copy)
        right = float(copy) == 5.0
    except Exception as error:  # noqa: BLE001 - whatever Triton, the compiler or the driver raised is the finding
        return {"works": False, "says": f"{type(error).__name__}: {error}"[:600]}
    return {"works": right, "says": f"compiled and ran in {time.monotonic() - began:.1f} s"}


def _said(command: list[str]) -> Message:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"works": False, "says": str(error)}
    lines = (done.stdout + done.stderr).strip().splitlines()
    return {"works": done.returncode == 0, "says": (lines[-1] if lines else "")[:300]}


_PARTS: dict[str, Callable[[Assignment], Message]] = {
    "attempts": _attempts,
    "give": _give,
    "take": _take,
    "tools": _tools,
    "stay": lambda assignment: {},
}
