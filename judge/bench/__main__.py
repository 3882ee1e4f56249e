"""`python -m judge.bench`: the command of a batch judge. Nothing imports this module."""

from __future__ import annotations

import sys

from judge.batch.command import main

if __name__ == "__main__":
    sys.exit(main())
