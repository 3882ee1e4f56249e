"""The catalogue of operators of the installed torch: found once per version by a child, kept in the data folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from judge.libraries.asked_once import Question, answer

PROTOCOL = 2  # of judge.bench.operators: another one is another catalogue
QUESTION = Question("judge.bench.operators", "operators", "torch's operators", ("torch",), PROTOCOL)


def operators_document(folder: Path) -> dict[str, Any]:
    """{"torch": version, "operators": [...]}; made on first use, which takes some seconds. Raises JudgeError."""
    return answer(QUESTION, folder)
