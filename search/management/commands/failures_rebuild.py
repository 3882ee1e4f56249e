"""`manage.py failures_rebuild`: keeps failures of old nodes and puts all of them into today's clusters."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand

from memory.failures.models import Failure, FailureCluster
from search.engine.completion import failures_rebuild


class Command(BaseCommand):
    help = (
        "Store the failures of nodes that were completed or imported before failures were stored, and assign every "
        "failure to its cluster by the current normaliser. Decisions of people about clusters are kept. Can be run "
        "at any time."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        started = time.monotonic()
        done = failures_rebuild()
        took = time.monotonic() - started
        clusters = done.clusters
        named = Failure.objects.exclude(cluster__pattern="").count()
        share = f"{named / clusters.seen:.1%}" if clusters.seen else "none"
        self.stdout.write(
            f"{clusters.seen} failures, {done.kept} of them new; {clusters.moved} changed their cluster, "
            f"{clusters.emptied} clusters are gone; {done.relabelled} nodes relabelled; {took:.2f} s"
        )
        self.stdout.write(f"{FailureCluster.objects.count()} clusters; {share} of the failures have a named cause")
