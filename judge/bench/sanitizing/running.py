"""Runs compute-sanitizer on one candidate: bounded, in the strongest sandbox that a known kernel passes in. Standard
library only.

A known kernel goes first, at each level of the sandbox from the strongest on: a candidate cannot talk its way into a
weaker one, and where the known kernel does not come out clean, it is the tool that fails here.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judge.bench.device.gpu_lock import GpuLock
from judge.bench.exchange.fields import text_of
from judge.bench.processes.children import END_S, folder_mode, private_folder, wipe
from judge.bench.processes.forkserver import PROJECT, clean_environment
from judge.bench.processes.known_problem import KNOWN, KNOWN_RIGHT
from judge.bench.processes.stopping import look
from judge.bench.processes.watching import descendants, memory_of
from judge.bench.sandboxing.sandbox import missing
from judge.bench.sanitizing.entering import LEVELS
from judge.bench.sanitizing.reading import MOST_BYTES, read_report
from judge.bench.sanitizing.tool import ASKED, NOT_INSTALLED, command, folders_of, sanitizer_path
from judge.values import JudgeError, ProblemSpec
from judge.values.sanitizer import CheckState, Findings, SanitizerReport, ToolRun

STEP_S = 0.25
OUTPUT_BYTES = 64 * 1024
LAST_LINES = 20  # the tool may say something before and after the program
CACHES = {"HOME": "home", "TMPDIR": "tmp", "TRITON_CACHE_DIR": "triton", "CUDA_CACHE_PATH": "cuda"}


@dataclass(frozen=True)
class Bounds:
    """Of each run: seconds, and MiB of the host's memory over all its processes."""

    wall_s: float = 300.0
    memory_mb: int = 16_384


@dataclass(frozen=True)
class Ended:
    """One run as seen from outside: layers of its process, report, whether it says that the call was made."""

    layers: dict[str, str]
    findings: Findings
    called: bool
    cut: CheckState | None  # which bound ended it
    seconds: float
    output: str


class Sanitizer:
    """compute-sanitizer on one device, "cuda:N" (or "cpu" for tests). `required`: sandbox layers without which no
    foreign code is run. `lock` is the descriptor of the GPU's lock file."""

    def __init__(
        self, device: str, *, required: frozenset[str] = frozenset(), lock: int | None = None, bounds: Bounds = Bounds()
    ) -> None:
        path = sanitizer_path()
        if path is None:
            raise JudgeError(NOT_INSTALLED)
        self.path, self.device, self.required, self.bounds = path, device, required, bounds
        self._lock = lock

    def check(self, problem: ProblemSpec, candidate: str, tools: Sequence[str] = ASKED) -> SanitizerReport:
        """Each tool on the candidate's one call. Raises JudgeError where no known kernel passes; Stopped."""
        folder = private_folder()
        try:
            with _beside_others(self._lock):
                level = self._level(folder)
                runs: list[ToolRun] = []
                layers: dict[str, str] = {}
                for tool in tools:
                    ended = self._run(folder / tool, level, tool, problem, candidate)
                    runs.append(self._judged(tool, ended))
                    layers = ended.layers or layers
        finally:
            wipe(folder)
        return SanitizerReport(self.path, layers, tuple(runs))

    def _level(self, folder: Path) -> str:
        """The strongest sandbox in which a known kernel comes out clean."""
        why = ""
        for level in LEVELS:
            ended = self._run(folder / f"known {level}", level, ASKED[0], KNOWN, KNOWN_RIGHT)
            run = self._judged(ASKED[0], ended)
            if run.state is CheckState.CLEAN:
                return level
            why = why or run.detail or "it reports errors"
        raise JudgeError(f"compute-sanitizer does not pass a known kernel in the sandbox of this machine: {why}")

    def _judged(self, tool: str, ended: Ended) -> ToolRun:
        found = ended.findings
        run = ToolRun(tool, CheckState.CLEAN, ended.seconds)
        if found.errors or found.kinds:
            return replace(run, state=CheckState.ERRORS, findings=found)
        gaps = missing(ended.layers, sorted(self.required)) if ended.layers else []
        if gaps:
            return replace(run, state=CheckState.FAILED, detail=f"sandbox layers are not active: {', '.join(gaps)}")
        if ended.cut is CheckState.TIMEOUT:
            return replace(run, state=ended.cut, detail=f"it took longer than {self.bounds.wall_s:.0f} s")
        if ended.cut is CheckState.MEMORY:
            return replace(run, state=ended.cut, detail=f"it took more than {self.bounds.memory_mb:,} MiB of memory")
        if ended.called and found.errors == 0 and not found.fault:
            return replace(run, findings=found)
        why = found.fault or ("" if ended.called else "the call did not end")
        why = why or "the report has no summary"
        detail = f"{why}: {ended.output}" if ended.output and not ended.called else why
        return replace(run, state=CheckState.FAILED, detail=detail)

    def _run(self, folder: Path, level: str, tool: str, problem: ProblemSpec, candidate: str) -> Ended:
        own = folder / "run"  # the program's: the report lies outside of it
        for place in (folder, own):
            place.mkdir(mode=folder_mode())
        log, request = folder / "report", folder / "request.json"
        request.write_text(json.dumps(self._request(own, problem, candidate)))
        program = [sys.executable, "-m", "judge.bench.sanitizing.program", str(request)]
        order = {
            "level": level,
            "folder": str(folder),
            "read": folders_of(self.path),
            "cuda": self.device != "cpu",
            "command": command(self.path, tool, log, program),
        }
        started = time.monotonic()
        with _process(order, self._environment(own)) as process:
            cut, said = self._watched(process, started + self.bounds.wall_s)
        raw = b""
        if log.is_file() and not log.is_symlink():
            with log.open("rb") as file:
                raw = file.read(MOST_BYTES)
        lines = said.decode("utf-8", "replace").splitlines()
        first = next((found for line in lines[:LAST_LINES] if "sandbox" in (found := _object(line))), {})
        layers = _layers(first.get("sandbox"))  # said before anything foreign was loaded
        called = any(_object(line).get("called") is True for line in lines[-LAST_LINES:])
        output = text_of(" ".join(line.strip() for line in lines[-2:] if "sandbox" not in line), "output", 300)
        seconds = time.monotonic() - started
        return Ended(layers, read_report(raw), called, cut, seconds, output)

    def _request(self, own: Path, problem: ProblemSpec, candidate: str) -> dict[str, Any]:
        return {
            "problem": problem.source,
            "case": problem.case,
            "policy": problem.policy.to_json(),
            "candidate": candidate,
            "folder": str(own),
            "device": "cpu" if self.device == "cpu" else "cuda:0",
            "required": sorted(self.required),
        }

    def _environment(self, own: Path) -> dict[str, str]:
        env = clean_environment(self.device, interpret=False) | {"PYTHONPATH": str(PROJECT)}
        for variable, name in CACHES.items():
            (own / name).mkdir(mode=folder_mode())
            env[variable] = str(own / name)
        # Each tensor in memory of its own: torch would cut it from a larger piece, where a stray access hits no edge.
        return env | {"TRITON_HOME": env["HOME"], "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}

    def _watched(self, process: subprocess.Popen[bytes], deadline: float) -> tuple[CheckState | None, bytes]:
        """Until it ends: which bound ended it, and the beginning and the end of what it printed."""
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        said = bytearray()
        while True:
            look()
            over = process.poll() is not None
            while part := process.stdout.read(1 << 16) or b"":
                said += part
                del said[OUTPUT_BYTES:-OUTPUT_BYTES]
            if over:
                return None, bytes(said)
            if time.monotonic() > deadline:
                return CheckState.TIMEOUT, bytes(said)
            if memory_of([process.pid, *descendants(process.pid)]) > self.bounds.memory_mb << 20:
                return CheckState.MEMORY, bytes(said)
            time.sleep(STEP_S)


@contextmanager
def _process(order: dict[str, Any], env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The tool and all that it starts; none of them lives afterwards."""
    arguments = [sys.executable, "-m", "judge.bench.sanitizing.entering", json.dumps(order)]
    process = subprocess.Popen(
        arguments, cwd=PROJECT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill its group, and whatever left the group: that is tied to its parent. Raises JudgeError when one will not."""
    left = [process.pid, *descendants(process.pid)]
    handles = [handle for pid in left if (handle := _handle(pid)) is not None]
    for pid in left:
        for send in (os.killpg, os.kill):
            try:
                send(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
    if process.stdout is not None:
        process.stdout.close()
    try:
        ended = [bool(select.select([handle], [], [], END_S)[0]) for handle in handles]
        process.wait(END_S)
    except subprocess.TimeoutExpired as error:
        raise JudgeError(f"compute-sanitizer (process {process.pid}) does not end") from error
    finally:
        for handle in handles:
            os.close(handle)
    if not all(ended):
        raise JudgeError(f"a process of compute-sanitizer ({process.pid}) does not end")


def _handle(pid: int) -> int | None:
    """A descriptor that can be read once the process has ended; None where it is gone."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


@contextmanager
def _beside_others(fd: int | None) -> Iterator[None]:
    """Hold the GPU as one of many; the wait can be stopped."""
    lock = GpuLock(fd)
    while True:
        look()
        with lock.shared_at_once() as free:
            if free:
                yield
                return
        time.sleep(STEP_S)


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _layers(value: object) -> dict[str, str]:
    return {str(name): str(state)[:200] for name, state in value.items()} if isinstance(value, dict) else {}
