"""`manage.py judge_exchange FOLDER`: carry jobs to other machines and outcomes back through a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from judge.devices.keys import BadKey
from search.fleet.exchange import Exchanged, folder_exchange
from search.management.console import file_errors, refusals
from search.records.queue import send

EVERY_S = 2.0


class Command(BaseCommand):
    help = (
        "Import the outcomes that lie in a folder, and write the jobs that searches, campaigns and preflights on "
        "devices of other machines wait for. There, python -m judge.bench serve FOLDER judges them. With JUDGE_FOLDER "
        "set the workers do this every 5 s."
    )
    sleep = staticmethod(time.sleep)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="default: JUDGE_FOLDER")
        parser.add_argument("--watch", action="store_true", help="again every 2 s, until it is stopped")

    def handle(self, *args: Any, **options: Any) -> None:
        root = options["folder"] or (Path(settings.JUDGE_FOLDER) if settings.JUDGE_FOLDER else None)
        if root is None:
            raise CommandError("Give a folder, or set JUDGE_FOLDER.")
        said = ""
        while True:
            with refusals(BadKey), file_errors(root, "used"):
                done = folder_exchange(root=root, now=timezone.now())
            send(done.follow_ups)
            for reason in done.refused:
                self.stderr.write(f"refused: {reason}")
            text = _sentence(done, root)
            if text != said:
                self.stdout.write(text)
            said = text
            if not options["watch"]:
                return
            self.sleep(EVERY_S)


def _sentence(done: Exchanged, root: Path) -> str:
    return (
        f"{done.outcomes} outcomes imported, {done.completed} nodes completed, {len(done.refused)} refused; "
        f"{done.waiting} jobs wait in {root}"
    )
