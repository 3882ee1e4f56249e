"""What is searched, and where everything lies that a second machine needs to go on."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

DEVICE = "elsewhere"  # how the enrolled device is called
FIRST, SECOND = "first", "second"
PROPOSERS = ("builtin", "manual")


@dataclass(frozen=True)
class Plan:
    """One search. Raises ValueError, which says what to change."""

    problem: str
    device: str  # of the machine that serves: interpreter or cuda:N
    arch: str
    proposer: str
    steps: int
    seed: int

    def __post_init__(self) -> None:
        if self.proposer not in PROPOSERS:
            raise ValueError(f"There is no proposer {self.proposer!r} for this. Choose one of: {', '.join(PROPOSERS)}.")
        if self.steps < 2:
            raise ValueError("A search of fewer than two steps decides nothing. Give --steps 2 or more.")

    @property
    def kind(self) -> str:
        return self.device.partition(":")[0]

    def until(self, phase: str | None) -> int:
        """After so many completed steps the phase is over."""
        return self.steps // 2 if phase == FIRST else self.steps

    def start(self, device: str) -> dict[str, Any]:
        """The fields of `run.start`."""
        given = {name: getattr(self, name) for name in ("problem", "proposer", "steps", "seed")}
        return {**given, "device": device}

    def enroll(self) -> list[str]:
        """Arguments of manage.py. A GPU is a class, so that another one of its kind may go on."""
        pooled = ["--class"] if self.kind == "cuda" else []
        return ["judge_enroll_device", DEVICE, "--kind", self.kind, "--arch", self.arch, *pooled]


@dataclass(frozen=True)
class Place:
    """A folder: `site` holds the dashboard's data, `jobs` is shared with the machine that judges."""

    root: Path

    @property
    def site(self) -> Path:
        return self.root / "site"

    @property
    def jobs(self) -> Path:
        return self.root / "jobs"

    @property
    def key(self) -> Path:
        """The key of the enrolled device."""
        return next(self.site.rglob(f"{DEVICE}.key"))

    def serve(self, device: str) -> list[str]:
        """Arguments of Python on the machine that judges."""
        given = ["--device", device, "--key", str(self.key), "--cache", str(self.root / "cache")]
        return ["-m", "judge.bench", "serve", str(self.jobs), *given]

    def keep(self, plan: Plan, run: int, minutes: float) -> None:
        """What the second phase goes on with."""
        (self.root / "plan.json").write_text(json.dumps({"plan": asdict(plan), "run": run, "minutes": minutes}))

    def kept(self) -> tuple[Plan, int, float]:
        """(plan, number of the search, minutes so far). Raises ValueError where no first phase has ended."""
        try:
            found = json.loads((self.root / "plan.json").read_text())
        except OSError as error:
            raise ValueError(f"{self.root} holds no first phase. Run --phase first --folder {self.root}.") from error
        return Plan(**found["plan"]), int(found["run"]), float(found["minutes"])


def place_of(phase: str | None, folder: Path | None, fresh: Path) -> Place:
    """Where everything lies: `fresh` without a folder. Raises ValueError for a phase without a folder, and for a first
    one whose folder holds something."""
    if folder is None:
        if phase is not None:
            raise ValueError("--phase needs --folder: what the first phase leaves there, the second one goes on with.")
        return Place(fresh)
    if phase != SECOND and folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty. Choose another folder, or go on with --phase second.")
    return Place(folder.resolve())


def shown(command: list[str], **environment: str) -> str:
    """A command as a person types it."""
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in environment.items()), shlex.join(command)])
