"""Small spaces for tests of the policy laboratory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from search.lab.experiment import PAPER, Findings, Plan, contenders_of, explore
from search.lab.spaces import REFUSED, Config, Outcome, Space


def hill(config: Config) -> Outcome:
    """The larger the values, the faster; the second parameter at 0 does not compile."""
    return Outcome(True, 0.5 + sum(config)) if config[1] else REFUSED


HILL = Space("hill", (6, 6, 6), 15.5, hill)


def result(time_ms: float | str, fault: str = "correct", **config: Any) -> dict[str, Any]:
    """One row of a T4 cache."""
    return {"configuration": config, "invalidity": fault, "measurements": [{"name": "time", "value": time_ms}]}


def cache(folder: Path, *results: dict[str, Any], name: str = "tiny_T4.json") -> Path:
    """A T4 cache of these rows."""
    path = folder / name
    path.write_text(json.dumps({"schema_version": "1.0.0", "metadata": {}, "results": list(results)}))
    return path


def explored(contenders: tuple[str, ...] = ("default",), baseline: str = PAPER, **plan: Any) -> Findings:
    """A small experiment that was done to its end."""
    given = {"workers": (1, 4), "seeds": 8, "steps": 30} | plan
    findings = Findings(Plan(spaces=(HILL,), contenders=contenders_of(contenders, baseline), **given))
    explore(findings.plan, findings, jobs=1, progress=lambda cell, done, total: None)
    return findings
