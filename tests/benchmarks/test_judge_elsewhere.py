"""Comparison of trees and what is asked for; the dashboard and the server are tried by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.elsewhere.plan import DEVICE, FIRST, SECOND, Place, Plan, place_of
from tests.benchmarks.elsewhere.site import replies
from tests.benchmarks.elsewhere.trees import FIELDS, differences, equal_kernels
from tests.benchmarks.judge_elsewhere import sentences


def row(number: int, speedup: float | None = 2.0, basis: str = "MODELLED", **changes: Any) -> dict[str, Any]:
    given = dict.fromkeys(FIELDS, 0) | {"number": number, "source_hash": f"h{number}", "verdict": "pass"}
    measure = None if speedup is None else {"value": speedup, "basis": basis, "device": f"d{number}"}
    return {**given, "speedup": measure, **changes}


def plan(**changes: Any) -> Plan:
    given = {"problem": "swiglu", "device": "interpreter", "arch": "sm_90", "proposer": "manual"}
    return Plan(**{**given, "steps": 7, "seed": 3, **changes})


def test_equal_trees_have_no_difference_whoever_judged():
    here, there = [row(0, None), row(1)], [row(0, None), row(1)]
    there[1]["speedup"] = {**there[1]["speedup"], "device": "elsewhere"}
    assert differences(here, there) == []


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_counts(name):
    found = differences([row(0), row(1)], [row(0), row(1) | {name: "other"}])
    assert found == [f"node 1: {name} {row(1)[name]!r} here, 'other' elsewhere"]


def test_modelled_speedups_are_equal_and_measured_ones_have_to_be_there():
    assert len(differences([row(1, 2.0)], [row(1, 2.1)])) == 1
    assert differences([row(1, 2.0, "measured")], [row(1, 2.1, "measured")]) == []
    assert len(differences([row(1, 2.0, "measured")], [row(1, None)])) == 1
    assert len(differences([row(1, 2.0, "measured")], [row(1, 2.0)])) == 1


def test_a_node_of_one_tree_alone_is_named():
    assert differences([row(0), row(1)], [row(0)]) == ["node 1 is only here"]
    assert differences([], [row(0)]) == ["node 0 is only elsewhere"]


def test_verdicts_of_equal_kernels_are_counted_wherever_they_stand():
    here = [row(0, source_hash=None), row(1), row(2, verdict="wrong")]
    there = [row(0, source_hash=None), row(1, source_hash="h2"), row(2, source_hash="h1"), row(3)]
    assert equal_kernels(here, there) == (2, 1)


def test_a_first_phase_is_half_of_the_search_and_a_gpu_is_a_class():
    assert [plan().until(phase) for phase in (None, FIRST, SECOND)] == [7, 3, 7]
    assert plan().start(DEVICE) == {"problem": "swiglu", "proposer": "manual", "steps": 7, "seed": 3, "device": DEVICE}
    assert plan().enroll()[-2:] == ["--arch", "sm_90"] and plan(device="cuda:1").enroll()[-1] == "--class"
    assert plan(device="cuda:1").enroll()[2:4] == ["--kind", "cuda"]


@pytest.mark.parametrize(("changes", "said"), [({"steps": 1}, "two steps"), ({"proposer": "openai"}, "no proposer")])
def test_what_cannot_be_searched_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        plan(**changes)


def test_the_second_phase_goes_on_with_what_the_first_left(tmp_path):
    place = place_of(FIRST, tmp_path / "new", tmp_path)
    place.root.mkdir()
    place.keep(plan(), 5, 1.5)
    assert place_of(SECOND, tmp_path / "new", tmp_path).kept() == (plan(), 5, 1.5)
    with pytest.raises(ValueError, match="not empty"):
        place_of(FIRST, tmp_path / "new", tmp_path)
    with pytest.raises(ValueError, match="no first phase"):
        Place(tmp_path).kept()


def test_a_program_has_other_kernels_where_its_first_reply_is_refused():
    prompt = "Task: write\n```python\nimport torch\n\nclass Model(torch.nn.Module):\n    pass\n```\n"
    found = replies(prompt, 3)
    assert len(set(found)) == 3 and all("class ModelNew(Reference)" in one for one in found)
    assert found == replies(prompt, 3) and found[1:] != replies(prompt, 4)[1:]


def test_a_phase_needs_a_folder_and_a_whole_search_none(tmp_path):
    with pytest.raises(ValueError, match="needs --folder"):
        place_of(FIRST, None, tmp_path)
    assert place_of(None, None, tmp_path) == Place(Path(tmp_path))


def test_what_came_of_it_says_where_trees_part_and_what_to_do_after_the_first_phase():
    first = {"minutes_elsewhere": 1.25, "in_time": True}
    assert sentences(first) == ["elsewhere: 1.2 min", "go on with --phase second and the same --folder"]
    parts = {"minutes_here": 0.5, "differences": ["node 4: x"], "same_verdict": 3, "kernels_in_both": 4}
    lines = sentences({**first, **parts, "replays": False, "replay": "1 of 2 runs differ"})
    assert lines[2:] == [
        "trees differ:",
        "  node 4: x",
        "3 of 4 kernels of both have one verdict",
        "1 of 2 runs differ",
    ]
    assert "the time is over" in sentences({**first, "in_time": False})[0]
