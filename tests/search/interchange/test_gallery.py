"""The gallery of recorded searches: what it explains, what it offers, and what a file becomes."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from search.records.models import Run
from tests.pages import client_of, full_run
from tests.search.recorded import packed, step

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of recordings with one good file, one broken one and one of another kind."""
    place = tmp_path / "recorded_searches"
    place.mkdir()
    (place / "good.json.gz").write_bytes(packed([step(1, 0)]))
    (place / "broken.json").write_text("{")
    (place / "notes.txt").write_text("no recording")
    (tmp_path / "secret.json").write_text("{}")
    monkeypatch.setenv("ADAEXPLORE_FIXTURES", str(tmp_path))
    return place


def address():
    return reverse("gallery")


def test_the_first_page_leads_there_and_it_says_where_recordings_come_from(monkeypatch):
    monkeypatch.delenv("ADAEXPLORE_FIXTURES", raising=False)
    viewer = client_of("viewer")
    assert address() in viewer.get("/").content.decode()
    html = viewer.get(address()).content.decode()
    assert "ships no recordings" in html and "On this machine" not in html and '<input type="file"' not in html
    full_run()
    assert address() in client_of("operator").get("/").content.decode()


def test_a_file_is_imported_and_opens_growing_from_its_first_step(folder):
    sent = SimpleUploadedFile("mine.json.gz", (folder / "good.json.gz").read_bytes())
    answer = client_of("operator").post(address(), {"file": sent})
    run = Run.objects.get(origin="import")
    assert answer["Location"] == f"/s/{run.pk}/?at=0&play=1"
    html = client_of("viewer").get(address()).content.decode()
    assert f"/s/{run.pk}/?at=0&amp;play=1" in html and "reported" in html


def test_files_on_the_machine_are_offered_by_name_and_only_those(folder):
    operator = client_of("operator")
    html = operator.get(address()).content.decode()
    assert "good.json.gz" in html and "notes.txt" not in html
    answer = operator.post(address(), {"name": "good.json.gz"})
    run = Run.objects.get(origin="import")
    assert answer["Location"].startswith(f"/s/{run.pk}/")
    assert 'value="good.json.gz"' not in operator.get(address()).content.decode()
    for name in ("../secret.json", "notes.txt", str(folder / "good.json.gz"), "gone.json"):
        refused = operator.post(address(), {"name": name})
        assert refused.status_code == 422 and "no such file" in refused.content.decode(), name


def test_a_broken_file_changes_nothing_and_says_why(folder):
    operator = client_of("operator")
    before = Run.objects.count()
    answer = operator.post(address(), {"name": "broken.json"})
    assert answer.status_code == 422 and "broken.json" in answer.content.decode() and Run.objects.count() == before
    assert "No file was uploaded" in operator.post(address(), {}).content.decode()


def test_a_viewer_takes_nothing_in(folder):
    viewer = client_of("viewer")
    assert viewer.post(address(), {"name": "good.json.gz"}).status_code == 403
    assert "Importing a recording needs the role" in viewer.get(address()).content.decode()


def test_a_folder_that_is_not_there_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAEXPLORE_FIXTURES", str(tmp_path / "nowhere"))
    assert client_of("viewer").get(address()).status_code == 200
