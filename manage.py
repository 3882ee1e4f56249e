#!/usr/bin/env python
"""Command-line entry point of the dashboard."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adaexplore_site.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        raise SystemExit(
            f"Django is not installed here ({error}). Run `make setup` first, then use .venv/bin/python."
        ) from error
    from django.db.utils import OperationalError, ProgrammingError

    try:
        execute_from_command_line(sys.argv)
    except (OperationalError, ProgrammingError) as error:
        if not _unprepared():
            raise
        raise SystemExit(
            f"The database of this data folder lacks tables ({str(error).splitlines()[0]}). "
            "Run `make run`, or `manage.py migrate`, first."
        ) from None


def _unprepared() -> bool:
    """Whether migrations wait: a new data folder, or one of an older version."""
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


if __name__ == "__main__":
    main()
