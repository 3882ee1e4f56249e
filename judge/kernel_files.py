"""What the compiler made of a kernel, as far as this machine still keeps it."""

from __future__ import annotations

from django.conf import settings

from judge.bench.processes.artefacts import artefact_key
from judge.bench.processes.kept_texts import kept_texts
from judge.models import Evaluation
from judge.services.evaluations import case_of

PTX = ".ptx"


def ptx_of(evaluation: Evaluation | None) -> str:
    """The PTX of an evaluation's kernels, each under its name; empty where none is kept.

    A child that ran the candidate wrote it, so it is a text to read and no evidence.
    """
    if evaluation is None or evaluation.elsewhere:
        return ""
    problem = evaluation.problem
    case = case_of(problem, evaluation.device)
    key = artefact_key(evaluation.source, problem.spec(case).hash, case)
    texts = kept_texts(settings.DATA_DIR / "artefacts", evaluation.toolchain, key, PTX)
    return "\n".join(f"// {name}\n{text.rstrip()}\n" for name, text in texts)
