"""Life of one child: leave the zygote behind, enter the sandbox, take one assignment, answer it, end."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import tempfile
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from judge.bench.device.gpu_lock import making_context
from judge.bench.exchange.wire import Channel, Message
from judge.bench.sandboxing import sandbox
from judge.bench.sandboxing.sandbox import Bounds, Layers

# role -> module with `run(assignment)`; imported by the zygote, so that a child finds them loaded
ROLES = {
    "referee": "judge.bench.deciding.referee",
    "subject": "judge.bench.subjects.subject",
    "admit": "judge.bench.admission.preflight",
    "seal": "judge.bench.admission.sealing_child",
    "probe": "judge.bench.probing.probe",
    "compiler": "judge.bench.deciding.compiler",
    "stubs": "judge.bench.compiling.stub_build",
}


@dataclass(frozen=True)
class Assignment:
    """What a child has to do, and the channels it may use. `links` are the descriptors that came with it."""

    role: str
    payload: Message
    boss: Channel
    links: list[int]
    folder: Path
    device: str  # "cpu" or "cuda:0"
    target: str
    adapter: Any  # the interpreter's Adapter or the Recorder, None in a plain zygote
    layers: Layers


def stamp_of(payload: Message) -> Message:
    """Fields by which the runner knows that a message is about this assignment, and ours."""
    return {"nonce": payload["nonce"]} if "nonce" in payload else {}


def begin(boss_fd: int, log_fd: int, order: Message, context: dict[str, Any]) -> NoReturn:
    """First code of a forked child. The only place that catches everything: nothing may unwind into the zygote."""
    status = 1
    try:
        _detach(boss_fd, log_fd, Path(order["folder"]))
        _serve(boss_fd, order, context)
        status = 0
    except BaseException:  # noqa: BLE001 - the child's entry point
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _detach(boss_fd: int, log_fd: int, folder: Path) -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    keep = {0, 1, 2, boss_fd}
    for fd in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if fd not in keep:
            try:
                os.close(fd)
            except OSError:
                pass  # the listing's own descriptor
    os.chdir(folder)
    os.umask(0o007)  # see folder_mode in the fork server: the group counts where the real user id is given away
    caches = {"HOME": "home", "TMPDIR": "tmp", "TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
    for variable, name in {**caches, "CUDA_CACHE_PATH": "cuda", "XDG_CACHE_HOME": "cache"}.items():
        (folder / name).mkdir(exist_ok=True)
        os.environ[variable] = str(folder / name)
    for variable in ("TMP", "TEMP"):  # TMPDIR is lost on exec where the real and effective ids differ
        os.environ[variable] = os.environ["TMPDIR"]
    tempfile.tempdir = None  # what the zygote found is not ours
    os.environ["TRITON_HOME"] = str(folder / "home")
    gc.freeze()  # keep the preloaded objects out of later collections: no copied pages


def _serve(boss_fd: int, order: Message, context: dict[str, Any]) -> None:
    import socket

    boss = Channel(socket.socket(fileno=boss_fd))
    sandbox.die_with_parent()
    cuda = context["device"] != "cpu"
    os.nice(context["nice"])
    layers = dict(sandbox.OUTSIDE)
    if order["sandbox"]:
        layers = sandbox.enter_namespaces()
    if cuda:
        gpu = importlib.import_module("judge.bench.device.gpu")
        with making_context(order.get("gpu_lock")):  # it disturbs some of those who measure
            make_context = partial(gpu.make_context, context["device"])
            sandbox.without_capabilities(make_context) if order["sandbox"] else make_context()
            gpu.use_context(context["device"])
    if order["sandbox"]:
        bounds = Bounds(
            folder=order["folder"],
            memory_mb=None if cuda else order["memory_mb"],
            cpu_s=order["cpu_s"],
            allow_fork=order["allow_fork"],
            cuda=cuda,
            allow_memfd=order["allow_memfd"],
        )
        layers = sandbox.lock(bounds, layers)
    boss.send({"sandbox": layers})
    if sandbox.missing(layers, order["required"]):
        return  # before anybody's code runs; the runner reads why
    payload = boss.receive(None)
    boss.stamp = stamp_of(payload)
    assignment = Assignment(
        role=payload["role"],
        payload=payload,
        boss=boss,
        links=boss.take_fds(),
        folder=Path(order["folder"]),
        device=context["device"],
        target=context["target"],
        adapter=context["adapter"],
        layers=layers,
    )
    importlib.import_module(ROLES[payload["role"]]).run(assignment)
