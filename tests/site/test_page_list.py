"""No page is missing in the list that the browser sweep and the pictures walk."""

from __future__ import annotations

import pytest
from django.urls import resolve

from tests import page_rows
from tests.page_list import EVERY, NO_PAGES, WORKED
from tests.pages import addresses, client_of, full_run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("kept_figures")]


@pytest.fixture
def names() -> page_rows.Names:
    return page_rows.young() | page_rows.full()


def listed(names: page_rows.Names) -> set[str]:
    paths = (sight.path.format_map(names).split("?")[0] for sight in EVERY if sight.status not in (403, 404))
    return {str(resolve(path).url_name) for path in paths}


def test_every_route_is_in_the_list_or_is_said_to_be_no_page(names):
    routes = {address.name for address in addresses(full_run())}
    missing = routes - listed(names) - set(NO_PAGES)
    assert not missing, f"add a Sight to tests/page_list.py for each state of: {sorted(missing)}"
    assert not set(NO_PAGES) - routes, "routes that are gone"
    assert not set(NO_PAGES) & listed(names), "routes that are both"


def test_what_is_said_to_be_no_page_shows_none():
    admin = client_of("admin")
    for address in addresses(full_run()):
        if address.name in NO_PAGES and address.name != "sign-out":
            answer = admin.get(address.path)
            page = answer.status_code == 200 and not answer.streaming and b"<html" in answer.content
            assert not page, address


def test_every_listed_page_answers_as_the_list_says(names):
    people = {"ada": client_of("admin"), "vera": client_of("viewer")}
    for sight in set(EVERY) - set(WORKED):
        if sight.who != "nobody":
            answer = people[sight.who].get(sight.path.format_map(names))
            assert answer.status_code == sight.status, sight
            assert answer["Content-Type"].startswith("text/html"), sight


def test_each_state_has_a_name_of_its_own():
    assert len({sight.name for sight in EVERY}) == len(EVERY)
