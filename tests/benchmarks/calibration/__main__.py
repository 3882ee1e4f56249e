"""`python -m tests.benchmarks.calibration`: nothing imports this module."""

from __future__ import annotations

import sys

from tests.benchmarks.calibration.command import main

if __name__ == "__main__":
    sys.exit(main())
