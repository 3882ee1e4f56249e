"""A degenerate problem's flag stands wherever a search or a speedup of it is shown or leaves the house."""

from __future__ import annotations

import io
import json
import zipfile

import pytest
from django.urls import reverse

from search.interchange.exports import kernel_file, proof_zip, run_document
from search.records.models import Run
from tests.pages import client_of
from tests.search.live_rows import grow, new_best
from tests.search.makers import make_problem, make_run

pytestmark = pytest.mark.django_db
FLAWS = [{"code": "problem.dead_ops", "message": "m", "fix": "f", "flags": True}]


@pytest.fixture
def run() -> Run:
    problem = make_problem()
    problem.state = "degenerate"
    problem.admission = {"interpreter": {"state": "degenerate", "reason": "problem.dead_ops", "flaws": FLAWS}}
    problem.save()
    found = make_run(problem=problem)
    new_best(grow(found, speedup=3.0))
    found.nodes.filter(number=1).update(source="class ModelNew: ...\n", source_hash="h")
    return found


@pytest.mark.parametrize(
    "path", ["/", "/problems/", "/problems/relu/", "/s/{run}/", "/s/{run}/n/1/", "/devices/{device}/"]
)
def test_pages_mark_it_beside_the_number(run, path):
    html = client_of("viewer").get(path.format(run=run.pk, device=run.device_id)).content.decode()
    assert "degenerate" in html


def test_the_drawer_of_the_cockpit_marks_it(run):
    path = reverse("node-detail", args=[run.pk, 1])
    html = client_of("viewer").get(path, headers={"HX-Request": "true"}).content.decode()
    measure = html.split("node-measure")[1].split("</p>")[0]
    assert "degenerate problem" in measure


def test_an_honest_problem_is_marked_nowhere():
    run = make_run()
    new_best(grow(run, speedup=3.0))
    for path in ("/", f"/s/{run.pk}/", f"/s/{run.pk}/n/1/"):
        html = client_of("viewer", path).get(path).content.decode()
        assert "degenerate" not in html.split("<main")[1], path


def test_downloads_say_it_in_the_header_the_verdict_and_the_readme(run):
    node = run.nodes.get(number=1)
    _, kernel = kernel_file(node)
    assert b"problem flag: DEGENERATE (problem.dead_ops)" in kernel
    archive = zipfile.ZipFile(io.BytesIO(proof_zip(node)[1]))
    verdict = json.loads(archive.read("verdict.json"))
    assert verdict["problem"]["state"] == "degenerate" and verdict["problem"]["flags"] == ["problem.dead_ops"]
    assert b"Its problem is flagged: DEGENERATE" in archive.read("README.txt")


def test_the_document_of_a_run_says_it(run):
    document = run_document(run, toolchain="t", wall_s=1.0, command="c")
    assert (document["run"]["problem_state"], document["run"]["problem_flags"]) == ("degenerate", ["problem.dead_ops"])
