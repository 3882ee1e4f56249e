"""The command `python -m judge.bench serve`: judge what waits in a folder or at a server until stopped. No Django."""

from __future__ import annotations

import argparse
from pathlib import Path

from judge.batch.command import DONE, REFUSED, bench_arguments, bench_of, ending, fingerprint, say
from judge.batch.folder import Folder
from judge.batch.https import ServerPlace, ServerRefused, read_token
from judge.batch.noise_watch import ALLOWED, NoiseWatch
from judge.batch.serving import FolderPlace, Place, serve
from judge.devices.keys import DeviceKey, read_key


def main(arguments: list[str]) -> int:
    """Exit status as with files. SIGINT or SIGTERM ends it with 130, and the job at hand is given back."""
    options = _options(arguments)
    return ending(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    key = read_key(options.key)
    place = _place(options, key)
    with bench_of(options) as bench:
        mark = fingerprint(bench)
        say(f"{key.device} is served by {mark['device']}, {mark['toolchain']}; jobs from {options.place}")
        watch = NoiseWatch(bench, mark, say=say, allowed=options.noise_percent / 100)
        done = serve(
            place,
            bench=bench,
            key=key,
            fingerprint=watch.fingerprint,
            say=say,
            once=options.once,
            most_s=options.job_limit_s,
        )
    say(f"{done.judged} judged, {done.refused} refused, {done.late} late, {done.stopped} stopped")
    return REFUSED if done.refused else DONE


def _place(options: argparse.Namespace, key: DeviceKey) -> Place:
    if "://" not in options.place:
        return FolderPlace(Folder(Path(options.place)), key.device)
    if options.token_file is None:
        raise ServerRefused("--token-file is needed: a token of Settings, Tokens that may steer searches, in a file")
    return ServerPlace(options.place, key, read_token(options.token_file))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m judge.bench serve",
        description="Judge what waits in a folder or at a server, until it is stopped. Several may serve one, each "
        "with its GPU. Needs torch and Triton alone. Run it in the project folder.",
    )
    parser.add_argument(
        "place", metavar="FOLDER|URL", help="a shared disk, a folder that is copied, or https://dashboard.example.org"
    )
    parser.add_argument("--token-file", type=Path, metavar="F", help="for a server: holds a token, mode 0600")
    parser.add_argument("--key", type=Path, required=True, help="key of the enrolled device")
    parser.add_argument("--once", action="store_true", help="end when no job is left, instead of waiting for more")
    parser.add_argument(
        "--job-limit-s", type=_seconds, metavar="S", help="no evaluation may take longer, whatever its job allows"
    )
    parser.add_argument(
        "--noise-percent",
        type=_percent,
        default=100 * ALLOWED,
        metavar="P",
        help="above this noise of the GPU nothing is judged (default: %(default)g)",
    )
    bench_arguments(parser)
    return parser.parse_args(arguments)


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 50:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage from 0.1 to 50")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 1 to 86400")
    return value
