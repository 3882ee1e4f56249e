"""What the commands of both kinds of batch have in common: find, pause, stop, and drive one until it ends or waits."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError

from adaexplore_site.core.audit import ActionRefused
from judge.devices.benches import close_benches
from judge.problems.models import Problem
from memory.adapt.models import Batch
from search.algorithm.params import ALIASES, PRESETS
from search.batches.engine import Source, Tools
from search.batches.views import by_slugs
from search.engine.driver import alone
from search.management.console import JOBS, exchange_of

WAITS = "Workers advance it within seconds: keep `manage.py up` running."


class BatchCommand(BaseCommand):
    """Drives batches of one source in this process, or hands them to the workers."""

    source: ClassVar[Source]
    how: ClassVar[str]  # command line that resumes one
    sleep = staticmethod(time.sleep)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.act(options)
        except ActionRefused as error:
            raise CommandError(str(error)) from error

    def act(self, options: dict[str, Any]) -> None:
        """Do what the options ask for. May raise ActionRefused."""
        raise NotImplementedError

    def find(self, pk: int) -> Any:
        """The batch, with its device."""
        batch = self.source.rows.objects.select_related("device").filter(pk=pk).first()
        if batch is None:
            raise CommandError(f"There is no {self.source.noun} {pk}.")
        return batch

    def drive(self, batch: Batch, tools: Tools, folder: Path | None = None) -> Any:
        """Drive it here; Ctrl-C pauses it. The batch as it stands then. `folder` carries jobs to an enrolled device."""
        tools = replace(tools, elsewhere=exchange_of(batch.device, folder))
        with alone():
            try:
                self.source.drive(batch, tools)
            except KeyboardInterrupt:
                if not self.find(batch.pk).ended:
                    self.source.pause(batch, user=None)
                resume = self.how.format(batch.pk)
                raise CommandError(f"Paused, nothing is lost. Resume it with: {resume}", returncode=130) from None
            finally:
                close_benches()
        return self.find(batch.pk)

    def check_ended(self, batch: Batch) -> None:
        """Raises CommandError with the reason when it waits."""
        if not batch.ended:
            why = batch.stop_reason or f"{batch.device.name} is {batch.device.state}, or a search is paused."
            raise CommandError(f"The {self.source.noun} waits: {why} Resume it with: {self.how.format(batch.pk)}")

    def say(self, line: str) -> None:
        """One line of progress."""
        self.stderr.write(line)
        self.stderr.flush()


def named(slugs: list[str]) -> list[Problem]:
    """Problems by their slugs. Raises CommandError for one that does not exist."""
    problems, missing = by_slugs(slugs)
    if missing:
        raise CommandError(f"There is no problem {missing[0]!r}.")
    return problems


def batch_arguments(parser: argparse.ArgumentParser, *, preset: str) -> None:
    """Settings that every batch has."""
    parser.add_argument("--device", default="interpreter", help="interpreter, cuda:N, or an enrolled one")
    parser.add_argument("--jobs", type=Path, metavar="FOLDER", help=JOBS)
    parser.add_argument("--proposer", default="builtin", help="builtin or openai")
    parser.add_argument("--preset", default=preset, choices=[*PRESETS, *ALIASES])
    parser.add_argument("--params", nargs="*", default=[], metavar="NAME=VALUE", help="over the preset")
    parser.add_argument("--seed", type=int, help="same seed, same searches; random when left out")
    parser.add_argument("--at-once", type=int, default=1, help="problems at the same time, with workers")
    parser.add_argument("--concurrency", type=int, default=1, help="steps in flight of each search")
    parser.add_argument("--title", default="")
    parser.add_argument("--detach", action="store_true", help=WAITS)
