"""The command of a batch judge: conduct a job file on a device and write its outcomes. No Django."""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import re
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from judge.batch.lines import BadLine, Busy, OutcomeFile, Sealing, SentJob, outcome_line, read_job
from judge.bench.device.nvml import Gpu, gpus_here
from judge.bench.probing.known_kernel import RECORD, prove
from judge.bench.runner import Bench
from judge.bench.sandboxing.minimum import required_layers
from judge.devices.keys import BadKey, DeviceKey, read_key
from judge.sources.checks import case_for
from judge.values import AdmissionReport, Job, JudgeError, Limits, Outcome, UnclearFault, Verdict
from judge.values.outcomes import UNCLEAR

SEALING_LIMITS = Limits(wall_s=90, stage_s=30)
TRIES = 3  # a fault of the judge is no verdict on the candidate
Say = Callable[[str], None]


@dataclass
class Tally:
    """What came of a job file."""

    judged: int = 0
    known: int = 0  # had their outcome already
    refused: int = 0  # lines that are no job for this device
    lost: int = 0  # the judge failed three times; counted among the judged too


def conduct(jobs: Path, out: OutcomeFile, *, bench: Bench, key: DeviceKey | None, say: Say) -> Tally:
    """Judge every job of `jobs` that has no outcome in `out` yet. A bad line is reported and skipped.

    Raises JudgeError when the bench does not start, OSError when a file cannot be read or written.
    """
    tally, done = Tally(), out.finished()
    mark = fingerprint(bench)
    with jobs.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                sent = read_job(line.rstrip(b"\n"), key)
            except BadLine as bad:
                tally.refused += 1
                say(f"line {number} is refused: {bad}")
                continue
            if (sent.job.id, sent.nonce) in done:
                tally.known += 1
                continue
            outcome = answer(bench, sent.job)
            sealing = sealing_for(bench, sent, outcome)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            out.append(outcome_line(sent, outcome, fingerprint=mark, judged_at=now, key=key, sealing=sealing))
            done.add((sent.job.id, sent.nonce))
            tally.judged += 1
            tally.lost += isinstance(outcome, Outcome) and outcome.verdict is Verdict.LOST
            say(f"{sent.name}: {summary(outcome)}")
    return tally


def answer(bench: Bench, job: Job) -> Outcome | AdmissionReport:
    """The verdict on the job's candidate; without one the preflight of its problem. A fault of the judge is tried again
    and then `lost`."""
    for attempt in range(TRIES):
        try:
            return bench.evaluate(job) if job.candidate else _admit(bench, job)
        except JudgeError as error:
            if attempt == TRIES - 1:
                reason = UNCLEAR if isinstance(error, UnclearFault) else "judge.failed"
                return Outcome(Verdict.LOST, stage="judge", reason=reason, message=str(error)[:2000])
    raise AssertionError("TRIES is positive")


def _admit(bench: Bench, job: Job) -> AdmissionReport:
    """The preflight; once more with the case for this device where only the report names it."""
    report = bench.admit(job.problem, limits=job.limits)
    case = case_for(bench.device.partition(":")[0], report.cases) if job.problem.case is None else None
    if case is None:
        return report
    return bench.admit(dataclasses.replace(job.problem, case=case), limits=job.limits)


def sealing_for(bench: Bench, sent: SentJob, report: Outcome | AdmissionReport) -> Sealing | None:
    """Sealed cases for a problem that has passed its preflight, where they are asked for; None where the judge fails on
    them. The seed is drawn here: no job holds it."""
    if not sent.seal or not isinstance(report, AdmissionReport) or report.state == "refused":
        return None
    seed, problem = secrets.token_hex(16), dataclasses.replace(sent.job.problem, case=report.case)
    try:
        return Sealing(seed, bench.seal(problem, seed=seed, limits=SEALING_LIMITS))
    except JudgeError:
        return None


def summary(outcome: Outcome | AdmissionReport) -> str:
    """Verdict, speedup and time. Messages are left out: they may quote the problem."""
    if isinstance(outcome, AdmissionReport):
        return f"preflight: {outcome.state}{f' {outcome.reason}' if outcome.reason else ''}"
    speedup = outcome.speedup
    figure = f" {speedup.value:.2f}× [{speedup.low:.2f}–{speedup.high:.2f}] {speedup.basis}" if speedup else ""
    return (
        f"{outcome.verdict}{f' {outcome.reason}' if outcome.reason else ''}{figure} in {outcome.wall_ms / 1000:.1f} s"
    )


def fingerprint(bench: Bench) -> dict[str, Any]:
    """What the outcomes of this run were made on. Raises JudgeError when the bench does not start."""
    facts = {name: value for name, value in bench.facts().items() if name != "sandbox"}
    gpu = gpu_of(bench.device)
    return {
        **facts,
        "kind": bench.device.partition(":")[0],
        "arch": gpu.arch if gpu else facts["target"],
        "gpu": {name: getattr(gpu, name) for name in ("uuid", "title", "memory_mb", "driver")} if gpu else None,
        "kernel": platform.release(),
        "machine": platform.machine(),
    }


def gpu_of(device: str) -> Gpu | None:
    return next((gpu for gpu in gpus_here() if f"cuda:{gpu.ordinal}" == device), None)


DONE, REFUSED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 when every job has its outcome, 1 when lines were refused or lost, 2 when nothing could be done,
    130 after SIGINT or SIGTERM. The same command again goes on where this one ended."""
    options = _options(arguments)
    return ending(lambda: _run(options))


def ending(run: Callable[[], int]) -> int:
    """What `run` returns, or the status of how it ended. Signals end it as Ctrl-C does."""
    os.umask(0o077)  # outcomes are signed statements of this account
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started us in the background
    try:
        return run()
    except KeyboardInterrupt:
        say("interrupted; finished outcomes are kept. Run the same command to continue")
        return INTERRUPTED
    except (BadKey, Busy, JudgeError, ValueError) as error:
        say(str(error))
        return UNUSABLE
    except OSError as error:
        say(f"{error.filename or 'a file'}: {error.strerror}")
        return UNUSABLE


def _run(options: argparse.Namespace) -> int:
    key = read_key(options.key) if options.key else None
    if not options.jobs.is_file():
        raise ValueError(f"{options.jobs} is no file: give the one that judge_export_jobs wrote")
    if options.jobs.exists() and options.out.exists() and options.jobs.samefile(options.out):
        raise ValueError("--jobs and --out are the same file")
    if key is None:
        say("without --key the outcomes are not signed: they can be imported to look at, never as a best")
    with (
        OutcomeFile(options.out) as out,
        bench_of(options) as bench,
    ):
        tally = conduct(options.jobs, out, bench=bench, key=key, say=say)
    counts = f"{tally.judged} judged, {tally.known} known before, {tally.refused} refused, {tally.lost} lost"
    say(f"{counts}: {options.out}")
    return REFUSED if tally.refused or tally.lost else DONE


def _arch(device: str) -> str:
    """The architecture of the GPU, or what the interpreter models by default. Raises ValueError without such a GPU."""
    if not device.startswith("cuda"):
        return os.environ.get("JUDGE_TARGET", "").strip() or "sm_90"
    gpu = gpu_of(device)
    if gpu is None:
        known = ", ".join(f"cuda:{gpu.ordinal}" for gpu in gpus_here()) or "no GPU"
        raise ValueError(f"there is no device {device!r} here; the driver lists {known}")
    return gpu.arch


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m judge.bench",
        description="Judge the jobs of a file on this machine: no database, no network. Run it in the project folder. "
        "python -m judge.bench serve --help: judge what waits in a folder, until it is stopped.",
    )
    bench_arguments(parser)
    parser.add_argument("--jobs", required=True, type=Path, help="job file, one JSON object a line")
    parser.add_argument("--out", required=True, type=Path, help="outcome file; finished jobs in it are skipped")
    parser.add_argument("--key", type=Path, help="key of the enrolled device: checks the jobs, signs the outcomes")
    return parser.parse_args(arguments)


def bench_arguments(parser: argparse.ArgumentParser) -> None:
    """What a bench is opened with."""
    parser.add_argument("--device", required=True, type=_device, help="cuda:N or interpreter")
    parser.add_argument("--target", help="GPU architecture to compile for (default: the GPU's own)")
    parser.add_argument(
        "--min-sandbox",
        default=os.environ.get("JUDGE_MIN_SANDBOX", "").strip() or "auto",
        help="sandbox layers that must be active (default: JUDGE_MIN_SANDBOX, else auto)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "adaexplore-judge",
        help="compiled kernels and the times of torch.compile are kept here (default: %(default)s)",
    )


@contextmanager
def bench_of(options: argparse.Namespace) -> Iterator[Bench]:
    """The bench that the options ask for, once it has judged a known kernel: a fault of this machine is no outcome of a
    job. Raises JudgeError for one, ValueError for a GPU that is not there and a cache that cannot be written."""
    gpu = gpu_of(options.device)
    try:
        options.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        why = f"{options.cache} cannot be made ({error.strerror})"
        raise ValueError(f"{why}: name another folder by --cache") from error
    if not os.access(options.cache, os.W_OK | os.X_OK):
        raise ValueError(f"this account cannot write to {options.cache}: name another folder by --cache")
    with Bench(
        options.device,
        target=options.target or _arch(options.device),
        minimum_sandbox=required_layers(options.min_sandbox),
        artefacts=options.cache,
        identity=gpu.uuid if gpu else "",
    ) as bench:
        prove(bench, options.cache / RECORD)
        yield bench


def _device(text: str) -> str:
    if not re.fullmatch(r"interpreter|cpu|cuda:\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither interpreter nor cuda:N")
    return text


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
