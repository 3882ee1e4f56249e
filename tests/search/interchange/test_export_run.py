"""`export_run` and `import_search`, from folder to folder."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from adaexplore_site.core.models import AuditEntry
from search.interchange.imports import search_import
from search.records.models import Run
from tests.search.recorded import packed, step

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return search_import(data=packed([step(1, 0), step(2, 1, kind="small_step", fast_p=0)]), name="kb.json")


def export(run: Run, *args: str) -> Path:
    out = StringIO()
    call_command("export_run", str(run.pk), *args, stdout=out)
    return Path(out.getvalue().strip())


def test_every_form_of_a_search_is_written_and_taken_back(run, tmp_path):
    for form in ("folder", "zip", "packed"):
        path = export(run, "--as", form, "--out", str(tmp_path / form))
        out = StringIO()
        call_command("import_search", str(path), "--no-preflight", stdout=out)
        assert "2 steps" in out.getvalue()
    assert AuditEntry.objects.filter(verb="run.export").count() == 3


def test_a_folder_of_run_folders_is_imported_in_numeric_order(run, tmp_path):
    for name in ("2_9", "2_18"):
        export(run, "--as", "folder", "--out", str(tmp_path)).rename(tmp_path / name)
    out = StringIO()
    call_command("import_search", str(tmp_path), "--no-preflight", stdout=out)
    assert [line.split(":")[0] for line in out.getvalue().splitlines()] == ["2_9", "2_18"]


def test_one_node_is_written_as_solution_kernel_or_proof(run, tmp_path):
    for form, name in (("solution", "json"), ("kernel", "py"), ("proof", "zip")):
        assert export(run, "--as", form, "--node", "1", "--out", str(tmp_path)).suffix == f".{name}"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["999"], "no search 999"),
        (["--as", "kernel"], "--node goes with"),
        (["--as", "zip", "--node", "1"], "--node goes with"),
        (["--as", "kernel", "--node", "77"], "no node 77"),
        (["--as", "solution", "--node", "2"], "not correct"),
    ],
)
def test_what_cannot_be_written_is_told(run, tmp_path, args, said):
    given = args if args[0].isdigit() else [str(run.pk), *args]
    with pytest.raises(CommandError, match=said):
        call_command("export_run", *given, "--out", str(tmp_path / "o"))
