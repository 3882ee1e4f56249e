"""What is shown of a compiler's files."""

from __future__ import annotations

import pytest

from judge.evaluations.artefacts import options_of, ptx_of
from judge.evaluations.models import Evaluation
from judge.values import Basis


@pytest.mark.parametrize("evaluation", [None, Evaluation(basis=Basis.REPORTED)], ids=["no verdict", "judged elsewhere"])
def test_nothing_is_shown_of_what_was_not_compiled_here(evaluation):
    assert ptx_of(evaluation) == options_of(evaluation) == ""
