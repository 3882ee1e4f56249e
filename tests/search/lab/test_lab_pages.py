"""Pages of the laboratory: every figure with its interval and SIMULATED beside it, whatever is missing."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from search.lab.models import LabResult, lab_result_record
from search.lab.results import result_document
from tests.pages import client_of
from tests.search.lab_spaces import explored

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return client_of("viewer")


def stored(partial: bool = False) -> LabResult:
    findings = explored()
    if partial:
        del findings.curves["hill", 4, "greedy"]
    return lab_result_record(document=result_document(findings, seconds=2.0), command="policy_lab --synthetic")


def test_an_empty_laboratory_says_how_to_fill_it(viewer):
    html = viewer.get("/lab/").content.decode()
    assert "policy_lab --synthetic" in html


def test_the_list_names_each_result_and_what_came_out_of_it(viewer):
    row = stored()
    html = viewer.get("/lab/").content.decode()
    assert f'href="/lab/{row.pk}/"' in html and "hill" in html and "SIMULATED" in html


def test_every_figure_stands_with_interval_count_and_simulated(viewer):
    html = viewer.get(f"/lab/{stored().pk}/").content.decode()
    figures = re.findall(r'<span class="measure">.*?</span></span>', html)
    assert len(figures) > 15
    assert all(re.search(r"\[[+-]?\d\.\d{3} … [+-]?\d\.\d{3}\] n=8", one) and "SIMULATED" in one for one in figures)
    rest = re.sub(r'<span class="measure">.*?</span></span>', "", html.partition("<main")[2], flags=re.S)
    outside = re.sub(r"<[^>]*>", "", rest)
    assert not re.search(r"\d\.\d{3}", outside)


def test_curves_are_shown_for_the_workers_asked_for(viewer):
    path = f"/lab/{stored().pk}/"
    html = viewer.get(path, {"workers": 4}).content.decode()
    assert re.search(r'workers=4#curves" aria-current="true"', html)
    assert html.count('class="lab-line"') == 4 and html.count('class="lab-other"') == 3
    assert [viewer.get(path, {"workers": text}).status_code for text in ("3", "x")] == [404, 404]


def test_a_stopped_experiment_says_so_and_leaves_out_what_is_missing(viewer):
    html = viewer.get(f"/lab/{stored(partial=True).pk}/", {"workers": 4}).content.decode()
    assert "stopped early. Missing results" in html
    assert html.count('class="lab-line"') == 3


def test_a_result_of_another_protocol_is_not_to_be_compared(viewer):
    row = stored()
    LabResult.objects.update(protocol=0)
    assert "Do not compare" in viewer.get(f"/lab/{row.pk}/").content.decode()


def test_the_stored_document_can_be_had_as_json(viewer):
    row = stored()
    assert viewer.get(f"/lab/{row.pk}/?json").json() == row.result


def test_a_result_that_is_not_there_is_not_found_and_strangers_must_sign_in(viewer):
    assert viewer.get("/lab/999/").status_code == 404
    assert Client().get("/lab/")["Location"].startswith("/sign-in/")
