"""`python -m tests.benchmarks judge_baselines --device cuda:0`: every baseline of some problems, as the judge has them.

The reference itself is the candidate, so nothing but the baselines differs. Times in microseconds, medians.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from judge.bench.runner import Bench
from judge.problems.services import SAMPLES
from judge.sources.checks import case_for, declared_cases
from judge.values import BASELINES, Job, Limits, Outcome, Policy, Precision, ProblemSpec, Subject

LIMITS = Limits(wall_s=600, stage_s=300, memory_mb=16384)
HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"


def _problem(inputs: str, forward: str, init: str = "") -> str:
    return (
        f"{HEAD}class Model(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        {init or 'pass'}\n"
        f"    def forward(self, x):\n        return {forward}\n"
        f"def get_inputs():\n    return [{inputs}]\ndef get_init_inputs():\n    return []\n"
    )


OWN = {  # what the samples lack: convolutions, a recurrent layer
    "conv2d_relu": _problem(
        "torch.randn(32, 64, 112, 112)", "F.relu(self.b(F.relu(self.a(x))))",
        "self.a, self.b = nn.Conv2d(64, 128, 3, padding=1), nn.Conv2d(128, 128, 3, padding=1)",
    ),
    "conv3d": _problem("torch.randn(4, 32, 32, 64, 64)", "F.relu(self.a(x))", "self.a = nn.Conv3d(32, 64, 3)"),
    "lstm": _problem("torch.randn(128, 64, 512)", "self.a(x)[0]", "self.a = nn.LSTM(512, 512, 2)"),
    "linear": _problem("torch.randn(4096, 2048)", "F.gelu(self.a(x))", "self.a = nn.Linear(2048, 2048)"),
}  # fmt: skip


class Command(BaseCommand):
    help = (
        "Time every baseline of the sample problems and of a few more; print a table. On a GPU a problem may take 10 "
        "minutes at most, 5 for each stage; max-autotune takes the most, and --no-autotune leaves it out. How long "
        "all of them take has not been measured. Without a GPU try --device interpreter --only mean_gate, which "
        "models eager alone, or --device cpu --only row_energy --no-autotune: 10 to 30 s of processor time each."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--device", default="cuda:0", help="cuda:N; interpreter or cpu to try the command")
        parser.add_argument("--numerics", choices=[one.value for one in Precision], default="strict")
        parser.add_argument("--only", default="", help="problems whose name holds this")
        parser.add_argument("--no-autotune", dest="autotune", action="store_false", help="leave max-autotune out")
        parser.add_argument("--json", type=Path, help="also write the outcomes there")

    def handle(self, *args: Any, **options: Any) -> None:
        samples = {path.stem: path.read_text() for path in sorted(SAMPLES.glob("*.py")) if path.stem != "__init__"}
        chosen = {name: text for name, text in (OWN | samples).items() if options["only"] in name}
        asked = frozenset({"autotune"} if options["autotune"] else ())
        policy, found = Policy(precision=Precision(options["numerics"])), {}
        self.stdout.write("  ".join([f"{'problem':24}", *(f"{one.name:>13}" for one in BASELINES.values()), "fastest"]))
        with Bench(options["device"]) as bench:
            for name, text in chosen.items():
                kind = "cuda" if options["device"].startswith("cuda") else "interpreter"
                case = case_for(kind, declared_cases(text))
                candidate = text.replace("class Model(", "class ModelNew(")
                job = Job(name, ProblemSpec(text, case, policy), candidate, limits=LIMITS, baselines=asked)
                found[name] = bench.evaluate(job)
                self.stdout.write(line(name, found[name]))
                self.stdout.flush()
        if options["json"]:
            options["json"].write_text(json.dumps({name: one.to_json() for name, one in found.items()}, indent=1))


def line(name: str, outcome: Outcome) -> str:
    """One row of the table; below it why baselines that might apply have no time."""
    if not outcome.timings:
        return f"{name:24}  {outcome.verdict} {outcome.reason}: {outcome.message[:160]}"
    times = {one.subject: one.median_us for one in outcome.timings if one.subject is not Subject.CANDIDATE}
    cells = [f"{times[one.subject]:13,.1f}" if one.subject in times else f"{'-':>13}" for one in BASELINES.values()]
    fastest = min(times, key=lambda subject: times[subject])
    notes = outcome.environment.get("baselines", {})
    tried = {one.name for one in BASELINES.values() if one.stage in {stage.name for stage in outcome.stages}}
    failed = [f"{one} {why}" for one, why in notes.items() if why.startswith("left out: ") and one in tried]
    return "\n    ".join(["  ".join([f"{name:24}", *cells, fastest.value]), *failed])
