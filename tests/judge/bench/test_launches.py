"""What a child notes of its launches, and what they do there: only while it is watching."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from judge.bench.subjects.launches import Launches


def kernel(place: str, name: str = "scale") -> SimpleNamespace:
    return SimpleNamespace(__name__=name, __code__=SimpleNamespace(co_filename=place))


OWN = kernel("/box/candidate.py")


def test_before_and_after_watching_launches_run_and_nothing_is_noted():
    launches = Launches("noop", Path("/box"))
    assert launches.launch(OWN, lambda: "ran", lambda: "not") == "ran" and launches.report() == []
    with launches.watching():
        assert launches.launch(OWN, lambda: "ran", lambda: "not") == "not"
    assert launches.launch(OWN, lambda: "ran", lambda: "not") == "ran"
    [row] = launches.report()
    assert (row["name"], row["origin"], row["completed"], row["raised"]) == ("scale", "own", 1, 0)
    with launches.watching():
        assert launches.report() == []


def test_a_census_runs_what_it_notes_and_a_launch_within_a_launch_is_a_part_of_it():
    launches = Launches("census", Path("/box"))
    with launches.watching():
        for _ in range(2):
            assert launches.launch(OWN, lambda: launches.launch(OWN, lambda: 7, lambda: 0), lambda: 0) == 7
    assert [row["completed"] for row in launches.report()] == [2]


def test_what_raises_is_counted_and_the_next_launch_is_one_of_its_own():
    launches = Launches("raise", Path("/box"))
    with launches.watching():
        for _ in range(2):
            with pytest.raises(RuntimeError):
                launches.launch(OWN, lambda: "ran", lambda: "not")
    [row] = launches.report()
    assert (row["completed"], row["raised"], row["kind"]) == (0, 2, "exception")


def test_only_the_candidate_s_own_kernels_are_tampered_with():
    launches = Launches("noop", Path("/box"))
    made = kernel("/box/inductor/ab/cab.py", "triton_poi"), kernel("/lib/site-packages/lib.py", "lib")
    elsewhere = kernel("/other/inductor/ab/cab.py", "theirs")
    with launches.watching():
        assert [launches.launch(one, lambda: 1, lambda: 0) for one in (*made, elsewhere)] == [1, 1, 0]
    assert [row["origin"] for row in launches.report()] == ["compiler", "library", "own"]
