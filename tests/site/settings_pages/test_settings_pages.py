"""Settings: members and their roles, providers without their keys, what the installation allows."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from adaexplore_site.core.models import AuditEntry
from tests.pages import client_of

pytestmark = pytest.mark.django_db


def test_an_admin_invites_somebody_who_signs_in_once_by_the_link():
    admin = client_of("admin")
    html = admin.post("/settings/members/invite", {"name": "grace", "role": ["operator"], "key": "k"}).content.decode()
    link = re.search(r'value="http://testserver(/sign-in/[^"]+)"', html)
    assert link and "is not shown again" in html
    guest = Client()
    assert guest.get(link[1])["Location"] == "/" and Client().get(link[1]).status_code == 410
    assert guest.get("/new").status_code == 200 and "operator" in guest.get("/settings/").content.decode()
    again = admin.post("/settings/members/invite", {"name": "grace", "role": ["operator"], "key": "k"})
    assert again.status_code == 409 and User.objects.filter(username="grace").count() == 1
    assert AuditEntry.objects.get(verb="member.invite").after["roles"] == ["operator", "viewer"]


@pytest.mark.parametrize(
    ("name", "role", "words"),
    [
        ("", "operator", "1 to 60"),
        ("a b", "operator", "no blanks"),
        ("ada", "king", "no role"),
        ("SOME-admin", "", "already"),
    ],
)
def test_an_invitation_that_makes_no_sense_changes_nothing(name, role, words):
    answer = client_of("admin").post("/settings/members/invite", {"name": name, "role": [role] if role else []})
    assert answer.status_code == (409 if name else 422) and words in answer.content.decode()
    assert User.objects.count() == 1 and not AuditEntry.objects.exists()


def test_roles_are_set_and_the_last_admin_stays():
    admin = client_of("admin")
    ada = User.objects.create_user("ada")
    assert admin.post(f"/settings/members/{ada.pk}/roles", {"role": ["reviewer"]}).status_code == 302
    assert {group.name for group in ada.groups.all()} == {"reviewer", "viewer"}
    me = User.objects.get(username="some-admin")
    for path, fields in ((f"/settings/members/{me.pk}/roles", {"role": []}), (f"/settings/members/{me.pk}/access", {})):
        answer = admin.post(path, fields)
        assert answer.status_code == 409
    me.refresh_from_db()
    assert me.is_active and me.groups.filter(name="admin").exists()


def test_a_superuser_loses_the_role_for_real():
    admin, root = client_of("admin"), User.objects.create_superuser("root")
    assert admin.post(f"/settings/members/{root.pk}/roles", {"role": ["operator"]}).status_code == 302
    root.refresh_from_db()
    assert not root.is_superuser


def test_who_is_switched_off_is_out_at_once_and_comes_back_by_a_new_link():
    admin, other = client_of("admin"), client_of("operator", "ada")
    ada = User.objects.get(username="ada")
    assert other.get("/").status_code == 200
    assert admin.post(f"/settings/members/{ada.pk}/access", {"active": ""}).status_code == 302
    assert other.get("/").status_code == 302
    assert admin.post(f"/settings/members/{ada.pk}/link", {}).status_code == 409
    assert admin.post(f"/settings/members/{ada.pk}/access", {"active": "1"}).status_code == 302
    assert "is not shown again" in admin.post(f"/settings/members/{ada.pk}/link", {}).content.decode()


def test_others_see_who_is_here_and_no_forms():
    html = client_of("viewer").get("/settings/members/").content.decode()
    assert "some-viewer" in html and 'action="/settings' not in html


def test_providers_name_the_built_in_one_and_never_a_key(settings):
    viewer = client_of("viewer")
    settings.LLM_API_KEY = settings.LLM_MODEL = settings.LLM_BASE_URL = ""
    assert "new searches use the built-in proposer" in viewer.get("/settings/providers/").content.decode()
    settings.LLM_API_KEY, settings.LLM_MODEL = "sk-very-secret", "some-model"
    html = viewer.get("/settings/providers/").content.decode()
    assert "some-model" in html and "unknown: its calls are counted as unpriced" in html and "very-secret" not in html


def test_the_installation_s_limits_are_those_in_force(settings):
    settings.MAX_PROBLEM_BYTES = 77 << 10
    html = client_of("viewer").get("/settings/installation/").content.decode()
    assert "77 KiB" in html and str(settings.DATA_DIR) not in html
    assert str(settings.DATA_DIR) in client_of("admin").get("/settings/installation/").content.decode()
    assert client_of("viewer", "other").get("/settings/nonsense/").status_code == 404
