"""Who takes part in a measurement, and one entry for each way to run the reference beside a candidate.

A further baseline is a subject and an entry here, and a migration of the choices that stored measurements have.
Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Subject(StrEnum):
    CANDIDATE = "candidate"
    EAGER = "eager"
    COMPILE = "compile"  # torch.compile, default mode
    AUTOTUNE = "max-autotune"  # torch.compile, mode max-autotune
    INCUMBENT = "incumbent"  # the best kernel so far


class When(StrEnum):
    """When a baseline is timed."""

    PAIRED = "paired"  # in every measurement, by turns with the candidate
    ONCE = "once"  # once a problem, alone, after the first pairs
    BEST = "best"  # once a problem, alone, after the audit of a new best: in a stage and under a time limit of its own


@dataclass(frozen=True)
class Baseline:
    """`name` is that of its child and of the child's mode; a report has its speedup as `speedup_` + name.

    A failure is the problem's fault where `noted_as` is empty. Else it costs nothing: the outcome's environment says
    it under that name, which is also the name of the stage that a baseline timed beside a new best has.
    """

    name: str
    subject: Subject
    label: str
    when: When
    mode: str = ""  # of torch.compile; empty: the module runs as it is
    noted_as: str = ""
    limit_s: float = 0.0  # of its own stage
    setting: str = ""  # that asks for it; empty: it is timed unasked

    @property
    def key(self) -> str:
        """Of its speedup in a report."""
        return f"speedup_{self.name}"


BASELINES = {
    one.name: one
    for one in (
        Baseline("eager", Subject.EAGER, "eager", When.PAIRED),
        Baseline("compile", Subject.COMPILE, "torch.compile", When.ONCE, mode="default", noted_as="torch_compile"),
        Baseline(
            "autotune",
            Subject.AUTOTUNE,
            "torch.compile, max-autotune",
            When.BEST,
            mode="max-autotune",
            noted_as="max_autotune",
            limit_s=300.0,  # it tries many configurations
            setting="JUDGE_MAX_AUTOTUNE",
        ),
    )
}
COMPILED = tuple(one for one in BASELINES.values() if one.mode)  # their times and code are kept
