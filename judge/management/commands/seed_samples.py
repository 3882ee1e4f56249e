"""`manage.py seed_samples`: adds the sample problems that are not there yet."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from judge.problems.services import samples_seed


class Command(BaseCommand):
    help = "Add the sample problems that are not there yet. Changes nothing that exists."

    def handle(self, *args: Any, **options: Any) -> None:
        files = samples_seed()
        refused = [file for file in files if file.state == "refused"]
        created = sum(file.state == "created" for file in files)
        self.stdout.write(f"samples: {created} created, {len(files) - created - len(refused)} already there")
        if refused:
            raise CommandError("; ".join(f"{file.path}: {file.reason}" for file in refused))
