"""Importing and exporting through the browser."""

from __future__ import annotations

import gzip
import io
import json
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from adaexplore_site.core.models import AuditEntry
from search.interchange.exports import NothingToExport, solution
from search.interchange.imports import search_import
from search.records.models import Run
from tests.pages import client_of, full_run
from tests.search.export_rows import make_node
from tests.search.recorded import packed, step

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_broker(settings):
    settings.CELERY_BROKER_URL = "memory://"


def upload(data: bytes, name: str = "search.json", role: str = "operator"):
    return client_of(role).post("/import", {"file": SimpleUploadedFile(name, data)})


def test_an_operator_imports_a_file_and_lands_on_its_search():
    answer = upload(packed([step(1, 0)]))
    assert answer["Location"] == f"/s/{Run.objects.get().pk}/"
    assert AuditEntry.objects.get(verb="run.import").actor.username == "some-operator"


def test_a_bad_file_is_told_on_the_page_and_changes_nothing():
    answer = upload(b"PK\x03\x04broken", name="x.zip")
    assert answer.status_code == 422
    assert "x.zip: The archive is damaged" in answer.content.decode()
    assert not Run.objects.exists()
    assert "No file was uploaded" in client_of("operator", "b").post("/import").content.decode()


def test_a_viewer_sees_no_form_and_may_not_send_one():
    assert 'input type="file"' not in client_of("viewer", "v").get("/import").content.decode()
    assert upload(packed([step(1, 0)]), role="viewer").status_code == 403


def test_a_viewer_downloads_both_formats_and_the_audit_knows_it():
    run, viewer = full_run(), client_of("viewer")
    archive = zipfile.ZipFile(io.BytesIO(viewer.get(f"/s/{run.pk}/run.zip").content))
    assert f"adaexplore_relu_run{run.pk}/step_2_log.json" in archive.namelist()
    document = json.loads(gzip.decompress(viewer.get(f"/s/{run.pk}/run.json.gz").content))
    assert [row["node_id"] for row in document["steps"]] == [0, 1, 2, 3]
    acts = AuditEntry.objects.filter(verb="run.export").order_by("pk")
    assert [(act.after["what"], act.actor.username) for act in acts] == [
        ("run folder", "some-viewer"),
        ("packed run", "some-viewer"),
    ]
    assert "Exported the run folder" in viewer.get(f"/s/{run.pk}/activity/").content.decode()


def test_exports_of_an_imported_search_say_that_its_figures_are_reported():
    run = search_import(data=packed([step(1, 0)]), name="x.json")
    document = json.loads(gzip.decompress(client_of("viewer").get(f"/s/{run.pk}/run.json.gz").content))
    assert document["adaexplore_dashboard"]["basis"] == "reported"


def test_a_solution_has_every_field_of_the_schema():
    found = solution(make_node())
    assert set(found) == {"name", "definition", "author", "description", "spec", "sources"}
    assert found["definition"] == "relu_scale"
    assert "1.8× [1.1–2.6] MODELLED" in found["description"]
    spec = found["spec"]
    assert (spec["language"], spec["target_hardware"], spec["entry_point"]) == ("triton", ["sm_90"], "main.py::run")
    assert spec["destination_passing_style"] is False
    main = next(source["content"] for source in found["sources"] if source["path"] == "main.py")
    assert "def run(x):" in main
    for source in found["sources"]:
        compile(source["content"], source["path"], "exec")


def test_a_failed_kernel_is_no_solution():
    with pytest.raises(NothingToExport, match="not correct"):
        solution(make_node(evaluation={"verdict": "wrong"}))


def test_a_solution_runs(tmp_path):
    """The launcher finds the kernel beside it and gives it the inputs in order."""
    torch = pytest.importorskip("torch")
    kernel = "import torch\nclass ModelNew(torch.nn.Module):\n    def __init__(self, w):\n        super().__init__()\n"
    kernel += "        self.p = torch.nn.Parameter(torch.rand(w))\n"
    kernel += "    def forward(self, x):\n        return x * 2 + self.p * 0\n"
    for source in solution(make_node(source=kernel))["sources"]:
        (tmp_path / source["path"]).write_text(source["content"])
    spaces: dict = {"__file__": str(tmp_path / "main.py")}
    exec(compile((tmp_path / "main.py").read_text(), str(tmp_path / "main.py"), "exec"), spaces)
    x = torch.rand(5, 96)
    assert torch.equal(spaces["run"](x=x), x * 2)


def test_nobody_claims_that_a_search_recorded_elsewhere_was_not_steered():
    run = search_import(data=packed([step(1, 0)]), name="x.json")
    html = client_of("viewer").get(f"/s/{run.pk}/").content.decode()
    assert "The recording does not say whether this search was steered." in html
    assert "has not been steered" not in html
