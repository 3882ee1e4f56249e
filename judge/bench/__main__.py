"""`python -m judge.bench`: the commands of a batch judge. Nothing imports this module."""

from __future__ import annotations

import sys

from judge.batch import command, serve_command

if __name__ == "__main__":
    served = sys.argv[1:2] == ["serve"]
    sys.exit(serve_command.main(sys.argv[2:]) if served else command.main())
