"""Saved views: named addresses of lists, their owner's own or everybody's, and never a way out of this site."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from adaexplore_site.core.models import AuditEntry
from adaexplore_site.saved_views.models import SavedView
from adaexplore_site.saved_views.services import (
    KEPT,
    LONGEST,
    MOST,
    PLACES,
    address_of,
    query_of,
    view_delete,
    view_save,
)
from tests.pages import HOSTILE, client_of
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db

FORM = {"place": "run-list", "query": "?q=norm&state=running&before=7&as=csv", "name": "Norms"}


@pytest.fixture(autouse=True)
def a_search():
    make_run()


def test_a_view_keeps_the_page_s_own_parameters_and_is_a_link_above_it():
    viewer = client_of("viewer")
    for _ in range(2):
        answer = viewer.post("/views/save", {**FORM, "key": "k"})
        assert answer["Location"] == "/?state=running&q=norm"
    html = viewer.get("/?q=norm&state=running").content.decode()
    assert '<a href="/?state=running&amp;q=norm" aria-current="true"><bdi>Norms</bdi></a>' in html
    assert SavedView.objects.count() == AuditEntry.objects.filter(verb="view.save").count() == 1


@pytest.mark.parametrize("place", PLACES)
def test_every_list_has_its_views(place):
    viewer = client_of("viewer")
    viewer.post("/views/save", {"place": place, "query": "", "name": "Mine"})
    assert "<bdi>Mine</bdi>" in viewer.get(address_of(place, "")).content.decode()


def test_a_private_view_is_seen_and_named_to_nobody_else():
    client_of("operator").post("/views/save", {**FORM, "name": "My secret"})
    other = client_of("admin")
    assert "secret" not in other.get("/").content.decode() + other.get("/activity/").content.decode()
    assert "secret" not in other.get("/activity/activity.json").content.decode()
    view = SavedView.objects.get()
    assert other.post(f"/views/{view.pk}/rename", {"name": "x"}).status_code == 404


def test_a_shared_view_is_everybody_s_to_use_and_its_owner_s_to_change():
    client_of("operator").post("/views/save", {**FORM, "shared": "1"})
    view, other = SavedView.objects.get(), client_of("viewer")
    assert "<bdi>Norms</bdi>" in other.get("/").content.decode()
    html = other.post(f"/views/{view.pk}/delete", {"deleted": "1"}, follow=True).content.decode()
    view.refresh_from_db()
    assert "belongs to another member" in html and view.deleted_at is None


def test_sharing_needs_an_operator():
    html = client_of("viewer").post("/views/save", {**FORM, "shared": "1"}, follow=True).content.decode()
    assert "needs the role" in html and not SavedView.objects.exists()


def test_a_deleted_view_is_put_back_above_the_list_and_in_activity():
    operator = client_of("operator")
    operator.post("/views/save", FORM)
    view = SavedView.objects.get()
    operator.post(f"/views/{view.pk}/delete", {"deleted": "1"})
    html = operator.get("/").content.decode()
    assert "Restore<span" in html and "<bdi>Norms</bdi></a>" not in html
    operator.post(f"/activity/{AuditEntry.objects.get(verb='view.delete').pk}/undo", {"key": "u"})
    view.refresh_from_db()
    assert view.deleted_at is None


def test_a_name_is_given_once_and_renaming_says_so():
    viewer = client_of("viewer")
    for name in ("Norms", "Other"):
        viewer.post("/views/save", {**FORM, "name": name})
    other = SavedView.objects.get(name="Other")
    html = viewer.post(f"/views/{other.pk}/rename", {"name": " Norms "}, follow=True).content.decode()
    assert "Choose another name" in html
    viewer.post(f"/views/{other.pk}/rename", {"name": "Third"})
    assert set(SavedView.objects.values_list("name", flat=True)) == {"Norms", "Third"}


def test_hostile_names_and_addresses_stay_text_and_here():
    viewer = client_of("viewer")
    viewer.post("/views/save", {"place": "activity", "query": f"//evil.example/?who={HOSTILE}", "name": HOSTILE})
    view = SavedView.objects.get()
    assert address_of(view.place, view.query).startswith("/activity/")
    html = viewer.get("/activity/").content.decode()
    assert "<img src=x" not in html and "&lt;img src=x" in html
    assert viewer.post("/views/save", {**FORM, "place": "https://evil.example"}).status_code == 404


def test_a_query_is_bounded():
    text = "&".join(f"{name}={'é' * 500}" for name in PLACES["rule-list"][1])
    assert len(query_of("rule-list", text)) <= LONGEST


def test_names_that_are_none_are_refused():
    viewer = client_of("viewer")
    for name in ("", "  ", "x" * 61):
        assert (
            "Give the view a name" in viewer.post("/views/save", {**FORM, "name": name}, follow=True).content.decode()
        )
    assert not SavedView.objects.exists() and User.objects.count() == 1


def test_deleted_views_take_no_room_and_are_gone_after_a_month():
    viewer = client_of("viewer")
    owner = User.objects.get()
    old = timezone.now() - KEPT - timedelta(hours=1)
    SavedView.objects.bulk_create(
        SavedView(owner=owner, place="run-list", name=f"v{n}", deleted_at=old) for n in range(MOST)
    )
    assert 'action="/views/save"' in viewer.get("/").content.decode()
    view = view_save(place="run-list", name="new", query="", shared=False, user=owner)
    view_delete(view=view, deleted=True, user=owner)
    assert SavedView.objects.get() == view


def test_a_view_of_kernels_keeps_which_marked_ones_it_shows():
    assert query_of("kernel-list", "?marked=retired&after=3") == "marked=retired"
