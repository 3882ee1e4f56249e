"""`python -m tests.benchmarks NAME [OPTIONS]`: see NAMES."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import django

NAMES = (
    "judge_baselines", "judge_bench", "judge_crowd", "judge_elsewhere", "judge_memory", "judge_recorded",
)  # fmt: skip


def main(arguments: list[str]) -> None:
    """Run one tool as Django runs a command, with the settings of the product."""
    if not arguments or arguments[0] not in NAMES:
        raise SystemExit(f"Usage: python -m tests.benchmarks {{{','.join(NAMES)}}} [OPTIONS]; --help after a name.")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adaexplore_site.settings")
    django.setup()
    command = import_module(f"tests.benchmarks.{arguments[0]}").Command()
    command.run_from_argv(["python -m tests.benchmarks", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
