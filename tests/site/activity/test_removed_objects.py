"""What an action removed has its activity as its page, whatever kind of object it was."""

from __future__ import annotations

import pytest

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Removed
from adaexplore_site.activity import trail
from search.interchange.imports import search_import
from search.records.kinds import RUN
from search.records.models import Run
from tests.pages import client_of
from tests.pseudo_locale import pseudo_locale
from tests.search.recorded import packed, quick_hashes, step  # noqa: F401
from tests.site.actions.ready import hook

pytestmark = pytest.mark.django_db


def test_the_activity_of_a_webhook_says_who_removed_it():
    number = hook(True)["webhook_id"]
    admin, page = client_of("admin", "ada"), f"/activity/?object=webhook+{number}"
    assert "was removed" not in admin.get(page).content.decode()
    admin.post(f"/settings/webhooks/{number}/remove", {"sure": "1"})
    html = admin.get(page).content.decode()
    assert f"<h1>Webhook {number} was removed</h1>" in html
    assert "Removed by <bdi>ada</bdi>" in html and "To restore it: add it again; it gets a new secret." in html
    assert "was removed</h1>" not in admin.get("/activity/?object=webhook").content.decode()


@pytest.mark.usefixtures("quick_hashes")
def test_a_search_is_shown_removed_or_missing():
    run = search_import(data=packed([step(1, 0)]), name="one.json")
    assert registry.shown(RUN, run.pk) == run
    client_of("operator").post(f"/s/{run.pk}/remove")
    with pytest.raises(Removed) as found:
        registry.shown(RUN, run.pk)
    assert found.value.entry.object_id == str(run.pk) and not Run.objects.exists()
    assert client_of("viewer").get(f"/s/{run.pk + 1}/").status_code == 404


@pytest.mark.usefixtures("quick_hashes")
def test_the_links_of_the_page_of_a_removed_search_lead_on(monkeypatch):
    run = search_import(data=packed([step(1, 0)]), name="one.json")
    client_of("operator").post(f"/s/{run.pk}/remove")
    monkeypatch.setattr(trail, "PAGE", 1)
    viewer = client_of("viewer")
    answer = viewer.get(f"/s/{run.pk}/activity/")
    html = answer.content.decode()
    assert (
        "no-cache" in answer["Cache-Control"]
        and '<form class="filters activity-filters" method="get" action="/activity/"' in html
    )
    assert "Removed the imported search" in html and "Imported the search<" not in html
    older = answer.context["older"]
    assert older.startswith("/activity/?") and "Imported the search" in viewer.get(older).content.decode()


@pytest.mark.usefixtures("quick_hashes")
def test_the_question_before_a_removal_is_not_kept_by_browsers():
    run = search_import(data=packed([step(1, 0)]), name="one.json")
    assert "no-cache" in client_of("operator").get(f"/s/{run.pk}/remove")["Cache-Control"]


def test_an_object_is_named_in_the_language_of_the_reader():
    with pseudo_locale():
        chosen = trail.chosen_of({"object": "⟦WÉbhöök⟧ 3"})
    assert chosen.object == ("webhook", "3") and not chosen.faults
