"""In place of a candidate's process on a GPU: Triton's own driver code launches, on a driver that does nothing.

Reads the folders of candidates, a line each, and forks a process for each, which prints the milliseconds of its first
and second forward; its status follows.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

import torch

from judge.bench.compiling import tuning
from judge.bench.foreign.loading import load_candidate
from judge.bench.interpreting import cuda_stand_in
from judge.bench.interpreting.targets import target
from judge.bench.processes.warm_up import remember_answers
from judge.bench.processes.zygote import _import_what_launches_need, _remember_toolchain

LIMIT_S = 120


def main() -> None:
    _remember_toolchain()
    _import_what_launches_need()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            begin(Path(line.rstrip("\n")))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"ENDED {status}\n")
        sys.stdout.flush()


def begin(folder: Path) -> NoReturn:
    """The life of a forked process."""
    signal.alarm(LIMIT_S)
    os.environ |= {"TRITON_CACHE_DIR": str(folder / "triton"), "TMPDIR": str(folder / "tmp")}
    status = 1
    try:
        launch(folder)
        status = 0
    except BaseException:  # noqa: BLE001 - nothing may unwind into the parent's loop
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def launch(folder: Path) -> None:
    assert remember_answers(90, cuda=True) == []
    cuda_stand_in.install(target("sm_90"))
    payload = json.loads((folder / "payload.json").read_text())
    tuning.install(payload["handover"], folder, "cpu")  # a wall clock; the driver takes the same time for all
    model = load_candidate(payload["source"], folder)(*payload["init"])
    x = torch.randn(*payload["shape"])
    times = []
    with torch.no_grad():
        for _ in range(2):
            began = time.perf_counter()
            model(x)
            times.append((time.perf_counter() - began) * 1000)
    sys.stdout.write(f"TIMES {json.dumps(times)}\n")


if __name__ == "__main__":
    main()
