"""The run folder and the packed document hold the same, whatever is in them. No database."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from search.interchange.recording import OWN
from search.interchange.run_folder import document_of, files_of, read_folder

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
KEPT = ("node_id", "parent_node_id", "context_node_ids", "created_by", "score", "hardware", "error", "code", "prompt")


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A packed document as our export writes it, with any tree, texts and figures."""
    rows = [_row(draw, 0, None, "dummy_root", False)]
    for number in range(1, draw(st.integers(2, 8))):
        kind = draw(st.sampled_from(["large_step", "small_step"]))
        rows.append(_row(draw, number, draw(st.integers(0, number - 1)), kind, draw(st.booleans())))
    return {"label": "l", "run_dir": "r", "reference_src": "x = 1\r\n" + draw(TEXT), "steps": rows, OWN: {"format": 1}}


def _row(draw: st.DrawFn, number: int, parent: int | None, kind: str, correct: bool) -> dict[str, Any]:
    statistics = dict.fromkeys(("visits", "total_reward", "max_reward", "avg_reward", "depth"), 1)
    speedup = draw(st.floats(0.01, 900)) if correct else 0.0
    return {
        "node_id": number,
        "parent_node_id": parent,
        "context_node_ids": draw(st.lists(st.integers(0, number - 1), max_size=3)) if number else [],
        "created_by": kind,
        "score": {"compiled": correct or draw(st.booleans()), "correct": correct, "fast_p": speedup},
        "runtime_us": draw(st.floats(0.1, 1e6)),
        "baseline_time_us": draw(st.floats(0.1, 1e6)) if correct else None,
        "hardware": "NVIDIA RTX A6000",
        "error": None if correct else draw(TEXT.map(str.strip).filter(bool)),
        "code": draw(TEXT),
        "prompt": draw(TEXT),
        "global_best_node_id": 0,
        "global_best_score": [0, 0, 0.0],
        **statistics,
    }


@settings(deadline=None, max_examples=60)
@given(documents())
def test_what_is_written_is_read_again(document):
    files = {name: text.encode() for name, text in files_of(document).items()}
    back = document_of(files, name="elsewhere")
    assert [{key: row[key] for key in KEPT} for row in back["steps"]] == [
        {key: row[key] for key in KEPT} for row in document["steps"]
    ]
    assert (back["label"], back["run_dir"], back["reference_src"]) == ("l", "r", document["reference_src"])
    assert len(read_folder(files, name="elsewhere").steps) == len(document["steps"]) - 1
