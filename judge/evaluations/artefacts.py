"""What the compiler left of an evaluation's kernels: their PTX, and its options."""

from __future__ import annotations

import json

from django.conf import settings

from judge.bench.processes.artefacts import artefact_key, kept_texts
from judge.evaluations.models import Evaluation
from judge.evaluations.services import case_of

PTX = ".ptx"
OPTIONS = ".json"
_AUTOTUNER = ".autotune.json"


def ptx_of(evaluation: Evaluation | None) -> str:
    """The PTX of an evaluation's kernels, each under its name; empty where none is kept.

    A child that ran the candidate wrote it, so it is a text to read and no evidence.
    """
    return "\n".join(f"// {name}\n{text.rstrip()}\n" for name, text in _texts(evaluation, PTX))


def options_of(evaluation: Evaluation | None) -> str:
    """What the compiler was given for each kernel and what it noted, one fact a line; empty where nothing is kept."""
    found = []
    for name, text in _texts(evaluation, OPTIONS):
        if name.endswith(_AUTOTUNER):
            continue
        try:
            facts = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(facts, dict):
            lines = [f"{key} = {json.dumps(value, sort_keys=True)}" for key, value in sorted(facts.items())]
            found.append("\n".join([f"# {name.removesuffix(OPTIONS)}", *lines, ""]))
    return "\n".join(found)


def _texts(evaluation: Evaluation | None, suffix: str) -> list[tuple[str, str]]:
    if evaluation is None or evaluation.elsewhere:
        return []
    problem = evaluation.problem
    case = case_of(problem, evaluation.device)
    key = artefact_key(evaluation.source, problem.spec(case).hash, case)
    return kept_texts(settings.DATA_DIR / "artefacts", evaluation.toolchain, key, suffix)
