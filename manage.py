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
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
