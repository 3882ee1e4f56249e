"""The command line of the batch road: `python -m judge.bench --device cuda:0 --jobs in.jsonl --out out.jsonl`."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from pathlib import Path

from judge.batch.conduct import Tally, conduct
from judge.batch.files import Busy, OutcomeFile
from judge.bench.device.nvml import gpus_here
from judge.bench.runner import Bench
from judge.bench.sandboxing.minimum import required_layers
from judge.devices.keys import BadKey, read_key
from judge.values import JudgeError

DONE, REFUSED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 when every job has its outcome, 1 when lines were refused or lost, 2 when nothing could be done,
    130 after SIGINT or SIGTERM. The same command again goes on where this one ended."""
    options = _options(arguments)
    os.umask(0o077)  # outcomes are signed statements of this account
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started us in the background
    try:
        return _run(options)
    except KeyboardInterrupt:
        _say("interrupted; finished outcomes are kept, the same command goes on from here")
        return INTERRUPTED
    except (BadKey, Busy, JudgeError, ValueError) as error:
        _say(str(error))
        return UNUSABLE
    except OSError as error:
        _say(f"{error.filename or 'a file'}: {error.strerror}")
        return UNUSABLE


def _run(options: argparse.Namespace) -> int:
    key = read_key(options.key) if options.key else None
    target = options.target or _arch(options.device)
    if not options.jobs.is_file():
        raise ValueError(f"{options.jobs} is no file: give the one that judge_export_jobs wrote")
    if options.jobs.exists() and options.out.exists() and options.jobs.samefile(options.out):
        raise ValueError("--jobs and --out are the same file")
    if key is None:
        _say("without --key the outcomes are not signed: they can be imported to look at, never as a best")
    with (
        OutcomeFile(options.out) as out,
        Bench(options.device, target=target, minimum_sandbox=required_layers(options.min_sandbox)) as bench,
    ):
        tally = conduct(options.jobs, out, bench=bench, key=key, say=_say)
    _say(_conclusion(tally, options.out))
    return REFUSED if tally.refused or tally.lost else DONE


def _conclusion(tally: Tally, out: Path) -> str:
    parts = [f"{tally.judged} judged", f"{tally.known} known before", f"{tally.refused} refused", f"{tally.lost} lost"]
    return f"{', '.join(parts)}: {out}"


def _arch(device: str) -> str:
    """The architecture of the GPU, or what the interpreter models by default. Raises ValueError without such a GPU."""
    if not device.startswith("cuda"):
        return os.environ.get("JUDGE_TARGET", "").strip() or "sm_90"
    gpus = gpus_here()
    found = [gpu.arch for gpu in gpus if f"cuda:{gpu.ordinal}" == device]
    if not found:
        known = ", ".join(f"cuda:{gpu.ordinal}" for gpu in gpus) or "no GPU"
        raise ValueError(f"there is no device {device!r} here; the driver lists {known}")
    return found[0]


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m judge.bench",
        description="Judge the jobs of a file on this machine: no database, no network. Run it in the project folder.",
    )
    parser.add_argument("--device", required=True, type=_device, help="cuda:N or interpreter")
    parser.add_argument("--jobs", required=True, type=Path, help="job file, one JSON object a line")
    parser.add_argument("--out", required=True, type=Path, help="outcome file; finished jobs in it are skipped")
    parser.add_argument("--key", type=Path, help="key of the enrolled device: checks the jobs, signs the outcomes")
    parser.add_argument("--target", help="GPU architecture to compile for (default: the GPU's own)")
    parser.add_argument(
        "--min-sandbox",
        default=os.environ.get("JUDGE_MIN_SANDBOX", "").strip() or "auto",
        help="sandbox layers that must be active (default: JUDGE_MIN_SANDBOX, else auto)",
    )
    return parser.parse_args(arguments)


def _device(text: str) -> str:
    if not re.fullmatch(r"interpreter|cpu|cuda:\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither interpreter nor cuda:N")
    return text


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
