"""Fidelity: the published trees come out again, parent by parent and pool by pool."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from search.algorithm.params import SearchParams
from search.interchange.recording import read_recording
from search.replay.check import replay_recording
from tests.search.recorded import packed, step

PAPER = SearchParams(w=0.3, rho=1.0, alpha=0.0)


def test_every_published_parent_and_context_is_reproduced(fixtures_dir):
    files = sorted((fixtures_dir / "recorded_searches").glob("*.json.gz"))
    assert len(files) == 5
    for path in files:
        recording = read_recording(path.read_bytes())
        report = replay_recording(recording, PAPER)
        assert (report.parents, report.contexts, report.first_miss) == (report.steps, report.steps, None), path.name


def test_other_weights_do_not_reproduce_them(fixtures_dir):
    recording = read_recording((fixtures_dir / "recorded_searches" / "kb-l2-p63-200.json.gz").read_bytes())
    assert replay_recording(recording, SearchParams(w=0.25)).parents < len(recording.steps)


def test_the_command_fails_when_a_parent_differs(tmp_path):
    path = tmp_path / "odd.json"
    path.write_bytes(packed([step(1, 0), step(2, 1, kind="small_step", context=[1]), step(3, 2)]))
    out = StringIO()
    with pytest.raises(CommandError, match="1 of 3 selected parents differ"):
        call_command("replay_check", str(path), stdout=out)
    assert "first difference at step 3" in out.getvalue()


def test_a_file_that_is_no_recording_is_named(tmp_path):
    path = tmp_path / "list.json"
    path.write_text(json.dumps([1, 2]))
    with pytest.raises(CommandError, match=r"list\.json.*not a packed AdaExplore search"):
        call_command("replay_check", str(path))
