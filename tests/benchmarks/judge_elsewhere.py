"""`python -m tests.benchmarks judge_elsewhere`: a search judged by a served folder, and the same search judged here."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.bench.device.nvml import gpus_here
from judge.doctor.examine import device_names
from search.engine.driver import alone
from tests.benchmarks.elsewhere.plan import DEVICE, FIRST, PROPOSERS, SECOND, Place, Plan, place_of, shown
from tests.benchmarks.elsewhere.site import Program, Refused, manage, server, site
from tests.benchmarks.elsewhere.trees import differences, equal_kernels


class Command(BaseCommand):
    help = (
        "Start the dashboard (manage.py up), a search on an enrolled device over REST, and the server that judges what "
        "lies in its folder; then the same search on the device at hand. Prints the commands, the minutes, and "
        "whether both trees are the same and replay. With the proposer manual a small program reads each prompt over "
        "REST and answers it. On a GPU times are measured, so that trees may part after a decision that "
        "depends on one; verdicts of equal kernels have to agree. --phase first ends after half of the steps, and "
        "--phase second goes on with what lies in --folder, there or on another machine with a GPU of that kind. "
        "20 steps take about seven minutes on the interpreter with two cores."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--device", default="interpreter", help="that judges: interpreter (default) or cuda:N")
        parser.add_argument("--proposer", choices=PROPOSERS, default=PROPOSERS[0], help="of the kernels (builtin)")
        parser.add_argument("--problem", default="row_softmax", help="a sample (row_softmax)")
        parser.add_argument("--steps", type=int, default=20, help="of each search (20)")
        parser.add_argument("--seed", type=int, default=1, help="of both searches (1)")
        parser.add_argument("--phase", choices=(FIRST, SECOND), help="half of the search elsewhere; default: all")
        parser.add_argument("--folder", type=Path, help="where everything lies; default: a temporary folder")
        parser.add_argument("--budget", type=float, default=3600.0, help="seconds after which it ends (3600)")
        parser.add_argument(
            "--json", action="store_true", help="print what came of it as JSON; the rest goes to stderr"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["device"] not in device_names():
            raise CommandError(f"There is no device {options['device']!r} here. Known: {', '.join(device_names())}.")
        until = time.monotonic() + options["budget"]
        with alone(), tempfile.TemporaryDirectory(prefix="adaexplore-elsewhere-") as fresh:  # SIGTERM leaves nothing
            try:
                place = place_of(options["phase"], options["folder"], Path(fresh))
                found = self._found(place, options, until)
            except (ValueError, Refused, AssertionError) as error:  # AssertionError: what the dashboard did not reach
                raise CommandError(str(error)) from error
        self.stdout.write(json.dumps(found, indent=1) if options["json"] else "\n".join(sentences(found)))
        if found.get("differences") and found["basis"] == "modelled":
            raise CommandError("The two trees differ.")

    def _found(self, place: Place, options: dict[str, Any], until: float) -> dict[str, Any]:
        device, phase = options["device"], options["phase"]
        run, minutes = None, 0.0
        if phase == SECOND:
            plan, run, minutes = place.kept()
        else:
            given = {name: options[name] for name in ("problem", "proposer", "steps", "seed")}
            plan = Plan(device=device, arch=arch_of(device), **given)
            self._manage(place, ["migrate", "-v", "0"])
            self._manage(place, plan.enroll())
        self._say(shown(["manage.py", "up"], ADAEXPLORE_DATA=str(place.site), JUDGE_FOLDER=str(place.jobs)))
        with site(place) as (_, program):
            command = place.serve(device)
            self._say(shown(["python", *command]))
            with server(command, place.root / "serve.log"):
                begun = time.monotonic()
                run = run if run is not None else self._start(program, plan, DEVICE, until)
                whole = program.follow(run, plan.until(phase), until, self._say)
                minutes += (time.monotonic() - begun) / 60
            found: dict[str, Any] = {
                "phase": phase, "device": device, "proposer": plan.proposer, "steps": plan.steps,
                "basis": "measured" if plan.kind == "cuda" else "modelled", "in_time": whole,
                "minutes_elsewhere": round(minutes, 2),
            }  # fmt: skip
            if phase == FIRST or not whole:
                place.keep(plan, run, minutes)
                return found
            begun = time.monotonic()
            here = self._start(program, plan, device, until)
            found["in_time"] = program.follow(here, plan.steps, until, self._say)
            found["minutes_here"] = round((time.monotonic() - begun) / 60, 2)
            rows = program.nodes(here), program.nodes(run)
        both, same = equal_kernels(*rows)
        replayed, said = manage(place, ["replay_run", str(run), str(here)])
        self._say(shown(["manage.py", "replay_run", str(run), str(here)]))
        found |= {"differences": differences(*rows), "kernels_in_both": both, "same_verdict": same}
        return found | {"replays": not replayed, "replay": said}

    def _start(self, program: Program, plan: Plan, device: str, until: float) -> int:
        fields = plan.start(device)
        self._say(f"POST /api/v1/acts/run.start {json.dumps(fields)}")
        return program.start(fields, until)

    def _manage(self, place: Place, arguments: list[str]) -> None:
        self._say(shown(["manage.py", *arguments], ADAEXPLORE_DATA=str(place.site)))
        status, said = manage(place, arguments)
        if status:
            raise Refused(said)

    def _say(self, line: str) -> None:
        self.stderr.write(line)
        self.stderr.flush()


def arch_of(device: str) -> str:
    """Of the GPU, or the one that times on the interpreter are modelled for."""
    return {f"cuda:{gpu.ordinal}": gpu.arch for gpu in gpus_here()}.get(device) or str(settings.JUDGE_TARGET)


def sentences(found: dict[str, Any]) -> list[str]:
    """What came of it, for people."""
    lines = [f"elsewhere: {found['minutes_elsewhere']:.1f} min{'' if found['in_time'] else ', and the time is over'}"]
    if "minutes_here" in found:
        differ = found["differences"]
        lines += [
            f"here: {found['minutes_here']:.1f} min",
            "both trees are the same" if not differ else "trees differ:",
        ]
        lines += [f"  {line}" for line in differ]
        lines.append(f"{found['same_verdict']} of {found['kernels_in_both']} kernels of both have one verdict")
        lines.append("both replay from their logs" if found["replays"] else found["replay"])
    elif found["in_time"]:
        lines.append("go on with --phase second and the same --folder")
    return lines
