"""In place of a candidate's process on a GPU: Triton's own driver code launches, on a driver that does nothing.

Called with the folder of a candidate, which is named in argv; prints the milliseconds of its first and second forward.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

from judge.bench.compiling import tuning
from judge.bench.foreign.loading import load_candidate
from judge.bench.interpreting import cuda_stand_in
from judge.bench.interpreting.targets import target
from judge.bench.processes.warm_up import remember_answers
from judge.bench.processes.zygote import _import_what_launches_need, _remember_toolchain


def main(folder: Path) -> None:
    _remember_toolchain()
    _import_what_launches_need()
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
    main(Path(sys.argv[1]))
