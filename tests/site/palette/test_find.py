"""Finding by name or number: what is found, how much, for the page and for the palette."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from adaexplore_site.palette.find import MOST, found
from memory.prompting.scopes import Scope
from tests.memory.decisions import rule_create
from tests.pages import HOSTILE, client_of, full_run
from tests.search.makers import make_problem, make_run

pytestmark = pytest.mark.django_db


def names(q: str) -> list[tuple[str, str]]:
    return [(row.group, row.url) for row in found(q)]


def test_names_and_numbers_lead_to_searches_problems_rules_and_kernels():
    run = full_run()
    rule = rule_create(text="Do not call tl.dot on one row.", scope=Scope(), user=None)
    rows = names(run.problem.title)
    assert ("Searches", f"/s/{run.pk}/") in rows and ("Problems", f"/problems/{run.problem.slug}/") in rows
    assert ("Kernels", f"/s/{run.pk}/n/2/") in rows
    assert names(f"#{run.pk}")[0] == ("Searches", f"/s/{run.pk}/")
    assert names(f"{run.pk}/2")[0] == ("Kernels", f"/s/{run.pk}/n/2/")
    assert ("Rules", f"/rules/{rule.object_id}/") in names("tl.dot")
    assert names("nothing is called so") == names("") == names("   ") == []


def test_never_more_than_twenty_and_a_constant_number_of_queries():
    counts = []
    for more in (1, 12):
        for place in range(more):
            make_run(title=f"zebra {place}")
            make_problem(f"zebra-{more}-{place}")
        with CaptureQueriesContext(connection) as queries:
            assert len(found("zebra")) <= MOST
        counts.append(len(queries))
    assert counts[1] <= counts[0] + 1


def test_the_page_works_without_scripts_and_shows_hostile_names_as_text():
    full_run()
    viewer = client_of("viewer")
    html = viewer.get("/find/", {"q": "img src"}).content.decode()
    assert "&lt;img src=x" in html and HOSTILE not in html
    assert "Problems" in viewer.get("/find/").content.decode()
    assert "No results for" in viewer.get("/find/?q=xyzzy").content.decode()


def test_the_palette_gets_rows_as_json():
    run = full_run()
    rows = client_of("viewer").get("/find/names", {"q": str(run.pk)}).json()["rows"]
    assert rows[0][0] == "Searches" and rows[0][3] == f"/s/{run.pk}/"
    assert client_of("viewer", "x").get("/find/names").json() == {"rows": []}
