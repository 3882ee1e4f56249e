"""How fast the judge is, side by side with a plain one on the same kernels and device: `judge_bench`."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.bench.device.nvml import gpus_here
from judge.bench.runner import Bench
from judge.bench.sandboxing.minimum import required_layers
from judge.doctor.examine import device_names
from judge.values import JudgeError
from search.interchange.recording import RecordingRejected
from tests.benchmarks.comparison import real_size
from tests.benchmarks.comparison.contest import Plan, Sample, contest
from tests.benchmarks.comparison.corpus import entries
from tests.benchmarks.comparison.figures import agreement, columns, table, to_json
from tests.benchmarks.comparison.judges import ROUNDS, TIMED, WARM, Plain, Rivals
from tests.benchmarks.recorded.entries import RIGHT, Entry, sample
from tests.benchmarks.recorded.published import AS_PUBLISHED, recorded_entries


class Command(BaseCommand):
    help = (
        "Judge 32 kernels by turns with this judge and with a plain one (a fresh process each, reference and candidate "
        f"in it, {ROUNDS} rounds, {WARM} warm-up and {TIMED} timed calls): cold, warm in bursts, warm with pauses. "
        "Reports evaluations per minute, percentiles, overhead, how long the GPU is kept, agreement of the speedups. "
        "With --recorded: kernels of recorded searches at their published sizes, cold, warm, as losers and as bests."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--device", default="interpreter", help="interpreter (default) or cuda:N")
        parser.add_argument("--kernels", type=int, default=32, help="only the first so many (default all 32)")
        parser.add_argument("--repeats", type=int, default=5, help="warm evaluations of each kernel in a burst (5)")
        parser.add_argument("--pause", type=float, default=1.0, help="seconds before a paced evaluation; 0: none (1)")
        parser.add_argument("--budget", type=float, help="seconds after which no further evaluation begins")
        parser.add_argument(
            "--recorded", nargs="+", type=Path, metavar="FILE", help="recorded searches, gzipped or not"
        )
        parser.add_argument(
            "--sample", type=int, default=20, metavar="N", help="recorded kernels, published right (20)"
        )
        parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
        parser.add_argument("--plain", type=int, metavar="N", help="recorded kernels that the plain judge judges (all)")
        parser.add_argument("--bests", type=int, metavar="N", help="recorded kernels that are judged as bests (all)")
        parser.add_argument("--phases", nargs="+", metavar="PHASE", help=f"only these of {', '.join(real_size.ASKED)}")
        parser.add_argument("--losers", type=int, default=2, help="evaluations of each recorded kernel as a loser (2)")
        parser.add_argument(
            "--at-once", type=int, default=1, metavar="N", help="then losers in so many streams (1: none)"
        )
        parser.add_argument("--streams-s", type=float, default=20.0, metavar="SECONDS", help="for so long (20)")
        parser.add_argument("--json", action="store_true", help="print everything as JSON; progress goes to stderr")

    def handle(self, *args: Any, **options: Any) -> None:
        device = options["device"]
        if device not in device_names():
            raise CommandError(f"There is no device {device!r} here. Known: {', '.join(device_names())}.")
        if options["recorded"]:
            self._real_size(options)
            return
        samples: list[Sample] = []

        def told(sample: Sample) -> None:
            samples.append(sample)
            self._tell(sample)

        try:
            plan = Plan(options["repeats"], options["pause"], options["budget"])
            with Rivals(device, _target(device), required_layers(settings.JUDGE_MIN_SANDBOX)) as rivals:
                contest(entries()[: options["kernels"]], rivals.all, plan, told=told)
        except (ValueError, JudgeError) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self.stderr.write("interrupted: the figures are about what was done so far")
        if not samples:
            raise CommandError("Nothing was judged: give a larger budget or more kernels.")
        rows, agreed = columns(samples), agreement(samples, "judge", "plain")
        if options["json"]:
            head = {
                "device": device,
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "host": platform.platform(),
            }
            self.stdout.write(json.dumps({**head, **to_json(samples, rows, agreed)}, indent=1))
            return
        self.stdout.write("\n".join(table(rows)))
        self.stdout.write(f"{agreed.same_verdict} of {agreed.kernels} kernels got the same verdict from both")
        for line in agreed.differing:
            self.stdout.write(f"  differs (judge / plain): {line}")
        if agreed.median_difference is not None and agreed.largest_difference is not None:
            self.stdout.write(
                f"speedups of {agreed.speedups} kernels differ by {agreed.median_difference:.1%} at the median, "
                f"{agreed.largest_difference:.1%} at most"
            )

    def _real_size(self, options: dict[str, Any]) -> None:
        device, layers = options["device"], required_layers(settings.JUDGE_MIN_SANDBOX)
        trials: list[real_size.Trial] = []

        def told(trial: real_size.Trial) -> None:
            trials.append(trial)
            speedup = f" {trial.speedup:.2f}×" if trial.speedup else ""
            what = f"{trial.phase:11} {trial.judge:6} {trial.at_once} {trial.kernel:20}"
            self.stderr.write(f"{what} {trial.wall_s:7.2f} s {trial.verdict} {trial.reason[:60]}{speedup}")

        def opened() -> Bench:
            bench = Bench(device, target=_target(device), minimum_sandbox=layers)
            bench.facts()
            return bench

        try:
            plan = real_size.Plan(
                frozenset(options["phases"] or real_size.ASKED),
                options["losers"],
                _or(options["bests"], options["sample"]),
                _or(options["plain"], options["sample"]),
                options["budget"],
            )
            entries = self._recorded(options)
            with opened() as bench:
                plain = Plain(device, bench)
                plain.start()
                try:
                    real_size.compared(entries, bench, plain, plan, told=told)
                finally:
                    plain.close()
            if options["at_once"] > 1:
                real_size.at_once(entries, opened, options["at_once"], options["streams_s"], told=told)
        except OSError as error:
            raise CommandError(f"{error.filename or 'a file'}: {error.strerror}") from error
        except (ValueError, JudgeError, RecordingRejected) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self.stderr.write("interrupted: the figures are about what was done so far")
        if options["json"]:
            head = {"device": device, "at": datetime.now(UTC).isoformat(timespec="seconds"), "seed": options["seed"]}
            self.stdout.write(json.dumps({**head, **real_size.to_json(trials)}, indent=1))
            return
        self.stdout.write("\n".join(real_size.table(real_size.columns(trials), real_size.ratios(trials))))
        for line in real_size.differing(trials):
            self.stdout.write(f"  differs (judge / plain): {line}")

    @staticmethod
    def _recorded(options: dict[str, Any]) -> list[Entry]:
        kind = options["device"].partition(":")[0]
        found = recorded_entries(options["recorded"], kind=kind, policy=AS_PUBLISHED)
        return sample([one for one in found if one.published in RIGHT], options["sample"], options["seed"])

    def _tell(self, sample: Sample) -> None:
        answer = sample.answer
        speedup = f" {answer.speedup:.2f}×" if answer.speedup else ""
        note = f" {answer.note}" if answer.note else ""
        what = f"{sample.phase:6} {sample.judge:6} {sample.entry:26}"
        self.stderr.write(f"{what} {answer.wall_s:7.2f} s {answer.verdict}{speedup}{note}")


def _or(number: int | None, default: int) -> int:
    return default if number is None else number


def _target(device: str) -> str:
    found = {f"cuda:{gpu.ordinal}": gpu.arch for gpu in gpus_here()}
    return found.get(device) or str(settings.JUDGE_TARGET)
