"""A proposer and a bench for storms: quick, unreliable in known shares, and with a price."""

from __future__ import annotations

import hashlib
import os
import random
import time
from decimal import Decimal
from typing import Any

from judge.values import Audit, Basis, Job, JudgeError, Outcome, Speedup, Subject, Timing, Verdict
from search.proposers.protocol import Call, ProposerError, Reply, Task

THINK_S = float(os.environ.get("QUICK_THINK_S", "0.05"))
JUDGE_S = float(os.environ.get("QUICK_JUDGE_S", "0.01"))
FAULTY = 0.02  # of the calls fail and are tried again
EMPTY = 0.05  # of the replies hold no kernel
AGAIN = 0.15  # of the kernels are those of an earlier step
TOKENS = (200, 900)  # in and out of a call, at most
USD_PER_TOKEN = Decimal("0.00001")


class QuickProposer:
    """A kernel that depends on the task's seed alone; time, faults and tokens are drawn anew for each call."""

    name = "scripted"

    def propose(self, task: Task) -> Reply:
        time.sleep(random.uniform(0.5, 1.5) * THINK_S)
        if random.random() < FAULTY:
            raise ProposerError("the endpoint is away", permanent=False)
        used = [random.randint(most // 2, most) for most in TOKENS]
        price = USD_PER_TOKEN * sum(used)
        call = Call(
            prompt="ask", reply="code", model="scripted", tokens_in=used[0], tokens_out=used[1], price_usd=price
        )
        drawn = random.Random(task.seed)
        if drawn.random() < EMPTY:
            return Reply(reason="proposal.no_code", message="no code", calls=(call,))
        shown = task.number // 2 if drawn.random() < AGAIN else task.seed % 1_000_003
        return Reply(source=source_of(shown), summary=f"step {shown}", calls=(call,))


def source_of(number: int) -> str:
    """One kernel of many; all runs of a problem share them, so that searches meet at the same candidates."""
    lines = [f"    part_{k} = {number * 31 + k} if {number} % {k + 2} else {k}" for k in range(12)]
    return "class ModelNew:\n" + "\n".join(lines) + "\n"


class QuickBench:
    """A verdict that depends on the source alone. Stands in for `judge.bench.runner.Bench` by settings.JUDGE_BENCH."""

    idle_s = 0.0

    def __init__(self, device: str, **_: Any) -> None:
        self.device = device

    def evaluate(self, job: Job, *, progress: Any = None) -> Outcome:
        begun = time.monotonic()
        time.sleep(random.uniform(0.5, 1.5) * JUDGE_S)
        if random.random() < FAULTY:
            raise JudgeError("a child was lost")
        drawn = random.Random(hashlib.sha256(job.candidate.encode()).digest())
        wall_ms = (time.monotonic() - begun) * 1000
        if drawn.random() < 0.4:
            return Outcome(Verdict.WRONG, "correctness", "value.mismatch", "off by 3", loads=True, wall_ms=wall_ms)
        return _passed(drawn.uniform(0.3, 4.0), wall_ms)

    def facts(self) -> dict[str, object]:
        return {"toolchain": "quick 1"}

    def waiting(self) -> list[int]:
        return []

    def rest(self) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing to close."""


def _passed(speedup: float, wall_ms: float) -> Outcome:
    own, eager = 10.0, 10.0 * speedup
    return Outcome(
        Verdict.PASS,
        stage="timing",
        loads=True,
        timings=(
            Timing(Subject.CANDIDATE, Basis.MODELLED, "traffic_model", (own,), own, 0.9 * own, 1.1 * own),
            Timing(Subject.EAGER, Basis.MODELLED, "traffic_model", (eager,), eager, 0.9 * eager, 1.1 * eager),
        ),
        speedup=Speedup(speedup, speedup * 0.9, speedup * 1.1, 1, Basis.MODELLED),
        audit=Audit.PASSED,
        wall_ms=wall_ms,
    )
