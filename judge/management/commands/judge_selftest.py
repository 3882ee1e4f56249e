"""`manage.py judge_selftest`: attacks, honest kernels, planted bugs and equal twins against one device's judge."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.devices.models import Device
from judge.devices.services import DeviceMissing, device_get, devices_sync
from judge.selftest.entries import BadEntry, Corpus, Entry, chosen, compared, entries
from judge.selftest.results import CorpusCount, EntryResult, Report, State
from judge.selftest.run import Progress, run_entries
from judge.selftest.services import WORKERS, bench_opener, selftest_queue, selftest_run
from judge.selftest.trust import CORPORA
from judge.values import JudgeError

_MARKS = {State.RIGHT: "ok", State.MISSED: "MISSED", State.REASON: "REASON", State.LOST: "LOST"}


class Command(BaseCommand):
    help = (
        "Try the judge: every attack must be rejected for the right reason, every honest kernel accepted, every "
        "planted bug found, no kernel called faster than itself. A whole run is stored and shown on /judge/. "
        "Exit status 1 when anything was not as it must be."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--device", default="", help="interpreter or cuda:N; cuda:0 where there is one")
        parser.add_argument("--corpus", action="append", default=[], choices=[corpus.value for corpus in Corpus])
        parser.add_argument("--entry", action="append", default=[], metavar="ID", help="an id or its beginning")
        parser.add_argument(
            "--comparisons", type=int, metavar="N", help="of kernels with themselves, for each class of sizes"
        )
        parser.add_argument("--quick", action="store_true", help="a few entries of each corpus")
        parser.add_argument("--workers", type=int, default=0, help="entries at a time")
        parser.add_argument("--budget", type=float, metavar="SECONDS", help="no further entry begins after")
        parser.add_argument("--json", action="store_true", help="print the whole result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        devices_sync()
        try:
            device = device_get(name=options["device"] or _default())
            found = chosen(
                entries(),
                corpora=frozenset(map(Corpus, options["corpus"])),
                ids=tuple(options["entry"]),
                quick=options["quick"],
            )
            if options["comparisons"]:
                found = compared(found, options["comparisons"])
            report = self._run(device, found, options)
        except (DeviceMissing, JudgeError, BadEntry) as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(report.to_json()))
        else:
            self._print(report)
        if report.red or report.left:
            sys.exit(1)

    def _run(self, device: Device, found: tuple[Entry, ...], options: dict[str, Any]) -> Report:
        whole = not (options["corpus"] or options["entry"] or options["quick"])
        if not whole:
            return run_entries(
                found,
                device.name,
                bench_opener(device),
                workers=options["workers"] or WORKERS,
                whole=False,
                progress=self._teller(options),
                budget_s=options["budget"],
            )
        selftest = selftest_queue(device=device)
        if selftest is None:
            raise CommandError(f"A self-test of {device.name} is under way already; /judge/ shows it.")
        report = selftest_run(
            selftest=selftest,
            found=found,
            workers=options["workers"],
            progress=self._teller(options),
            budget_s=options["budget"],
        )
        assert report is not None  # nobody else knows of this row
        return report

    def _teller(self, options: dict[str, Any]) -> Progress:
        """Each entry as it ends: on stderr where stdout is kept for one JSON document."""
        out = self.stderr if options["json"] else self.stdout

        def completed(row: EntryResult) -> None:
            reason = f"{row.verdict} {row.reason}".strip()
            out.write(f"{_MARKS[row.state]:7} {row.id:36} {row.bench:11} {reason:40} {row.wall_ms / 1e3:6.1f} s")
            if row.state is not State.RIGHT:
                out.write(f"{'':8}{row.title}; expected {row.expected}\n{'':8}{row.message[:400]}")

        return completed

    def _print(self, report: Report) -> None:
        if report.whole:
            for row in report.results:
                if row.state is not State.RIGHT:
                    self._teller({"json": False})(row)
        self.stdout.write(f"\n{report.device}: {report.toolchain}, {report.protocol}")
        for count in report.counts():
            self._count(count)
        for size in report.sizes():
            each = size.wall_ms / 1e3 / max(1, size.comparisons)
            mark = "  MORE THAN ONE" if size.red else ""
            line = f"  {size.size:22} {size.faster:4} of {size.comparisons:4} called faster, {each:.1f} s each{mark}"
            self.stdout.write(line)
        seconds = report.finished - report.started
        skipped = f", {len(report.skipped)} entries need another device" if report.skipped else ""
        left = f", STOPPED with {report.left} entries left" if report.left else ""
        self.stdout.write(f"{'RED' if report.red else 'green'} after {seconds:.0f} s{skipped}{left}")

    def _count(self, count: CorpusCount) -> None:
        title, what = CORPORA[count.corpus]
        line = f"{title:24} {count.right:4} of {count.n:4} {what}"
        for word, ids in (("missed", count.missed), ("wrong reason", count.reason), ("lost", count.lost)):
            if ids:
                line += f"; {word}: {', '.join(ids)}"
        self.stdout.write(line)


def _default() -> str:
    gpu = Device.objects.gpus().filter(remote=False).order_by("name").first()
    return gpu.name if gpu else "interpreter"
