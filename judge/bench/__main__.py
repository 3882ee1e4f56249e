"""`python -m judge.bench`: the door of the batch road. Nothing imports this module."""

from __future__ import annotations

import sys

from judge.batch.command import main

if __name__ == "__main__":
    sys.exit(main())
