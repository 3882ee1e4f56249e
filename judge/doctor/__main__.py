"""`python -m judge.doctor`: what `manage.py judge_doctor` does, on a machine with torch and Triton and no Django."""

from __future__ import annotations

import argparse
import json
import os
import sys

from judge.bench.sandboxing.minimum import required_layers
from judge.doctor.examine import device_names, examine


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 for a machine that is fit to judge, 1 for one that is not, 2 for arguments that name nothing."""
    known = device_names()
    parser = argparse.ArgumentParser(prog="python -m judge.doctor", description="Is this machine safe and complete?")
    parser.add_argument("--device", action="append", choices=(*known, "cpu"), help="repeat for more (default: all)")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--target", default=os.environ.get("JUDGE_TARGET", "").strip() or "sm_90")
    parser.add_argument("--min-sandbox", default=os.environ.get("JUDGE_MIN_SANDBOX", "").strip() or "auto")
    options = parser.parse_args(arguments)
    try:
        required = required_layers(options.min_sandbox)
    except ValueError as error:
        parser.error(str(error))
    report = examine(options.device or known, required=required, target=options.target)
    text = json.dumps(report.to_json(), indent=2) if options.json else "\n".join(report.lines())
    sys.stdout.write(text + "\n")
    return 0 if report.healthy else 1


if __name__ == "__main__":
    sys.exit(main())
