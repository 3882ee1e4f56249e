"""`manage.py policy_lab`: what it prints and stores, how it refuses, what a stop leaves."""

from __future__ import annotations

import json
import os
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from search.lab import experiment
from search.lab.models import LabResult
from search.management.commands import policy_lab
from tests.search.lab_spaces import cache, result

pytestmark = pytest.mark.django_db
QUICK = ("--seeds", "3", "--steps", "10", "--workers", "1", "2", "--policies", "default")


def lab(*words: Any) -> tuple[str, str]:
    """What the command writes: result, progress."""
    out, err = StringIO(), StringIO()
    call_command("policy_lab", *map(str, words), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_landscapes_are_compared_and_the_result_is_stored():
    out, err = lab("--synthetic", *QUICK)
    row = LabResult.objects.get()
    assert "| default |" in out and out.startswith("SIMULATED")
    assert f"/lab/{row.pk}/" in err and "[24/24]" in err
    assert row.command == (
        "policy_lab --synthetic --policies default --baseline paper-l2 "
        "--workers 1 2 --seeds 3 --first-seed 0 --steps 10"
    )
    assert (row.protocol, row.partial, row.result["partial"]) == (experiment.PROTOCOL, False, False)


def test_the_same_command_gives_the_same_figures_with_any_number_of_processes():
    documents = [json.loads(lab(*QUICK, "--json", "--jobs", jobs)[0]) for jobs in (1, 2)]
    for document in documents:
        del document["seconds"]
    assert documents[0] == documents[1]


def test_files_and_folders_are_read_and_only_their_names_are_kept(tmp_path):
    rows = [result(float(1 + x + y), x=x, y=y) for x in range(4) for y in range(3)]
    cache(tmp_path, *rows, name="one_T4.json")
    lab("--spaces", tmp_path, *QUICK)
    row = LabResult.objects.get()
    assert [space["name"] for space in row.result["plan"]["spaces"]] == ["one"]
    assert os.sep not in row.command.split("--policies")[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policies", "best"], "is not a policy"),
        (["--seeds", "0"], "seeds must be from 1"),
        (["--jobs", "0"], "--jobs must be 1 or more"),
        (["--spaces", "nowhere.json"], "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_stored(words, message):
    with pytest.raises(CommandError, match=message):
        lab(*words)
    assert not LabResult.objects.exists()


def test_an_empty_folder_and_a_file_that_is_no_space_are_named(tmp_path):
    with pytest.raises(CommandError, match=r"holds no \.json"):
        lab("--spaces", tmp_path)
    (tmp_path / "odd.json").write_text("[]")
    with pytest.raises(CommandError, match=r"odd\.json is not a Kernel Tuner"):
        lab("--spaces", tmp_path / "odd.json")


def test_without_files_the_fixtures_must_be_named(monkeypatch):
    monkeypatch.delenv("ADAEXPLORE_FIXTURES", raising=False)
    with pytest.raises(CommandError, match="Name the files after --spaces"):
        lab("--spaces", "--seeds", "2")


def interrupted_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C once so many cells are done."""
    tell = policy_lab.Command._tell

    def stop(command, cell, done, total):
        tell(command, cell, done, total)
        if done == count:
            raise KeyboardInterrupt

    monkeypatch.setattr(policy_lab.Command, "_tell", stop)


def test_a_stop_keeps_what_is_done(monkeypatch):
    interrupted_after(5, monkeypatch)
    with pytest.raises(CommandError, match="marked as partial") as caught:
        lab("--synthetic", *QUICK)
    assert caught.value.returncode == 130
    row = LabResult.objects.get()
    assert row.partial and len(row.result["cells"]) == 5
