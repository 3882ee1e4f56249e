"""The one-time link signs in exactly once; strangers see nothing but the sign-in page."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from adaexplore_site.accounts import signin
from adaexplore_site.core.access import Role, can

pytestmark = pytest.mark.django_db


def test_a_link_signs_in_once(client: Client) -> None:
    path = signin.link_path(signin.first_admin())
    assert client.get(path).status_code == 302
    assert client.session["_auth_user_id"]
    again = Client().get(path)
    assert again.status_code == 410
    assert b"signin_link" in again.content


def test_using_one_link_voids_the_others(client: Client) -> None:
    admin = signin.first_admin()
    older, newer = signin.link_path(admin), signin.link_path(admin)
    client.get(newer)
    assert Client().get(older).status_code == 410


def test_a_used_link_leads_on_who_is_signed_in_to_its_account_and_nobody_else(client: Client) -> None:
    path = signin.link_path(signin.first_admin())
    client.get(path)
    again = client.get(path)
    assert again.status_code == 302 and again["Location"] == "/"
    other = Client()
    other.force_login(signin.user_ensure(name="bob", role=Role.VIEWER))
    assert other.get(path).status_code == 410 and Client().get(path).status_code == 410


def test_a_link_preview_does_not_use_it_up(client: Client) -> None:
    path = signin.link_path(signin.first_admin())
    assert client.head(path).status_code == 200
    assert client.get(path).status_code == 302


@pytest.mark.parametrize("path", ["/sign-in/x/y/", "/sign-in/%00/y/", "/sign-in/OTk5OTk5/c-0/", "/sign-in/é/z/"])
def test_nonsense_links_show_the_sign_in_page(client: Client, path: str) -> None:
    assert client.get(path).status_code == 410


def test_the_link_of_a_disabled_account_does_nothing(client: Client) -> None:
    user = signin.user_ensure(name="gone", role=Role.VIEWER)
    path = signin.link_path(user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert client.get(path).status_code == 410


def test_the_first_admin_is_made_once_and_holds_every_role() -> None:
    admin = signin.first_admin()
    assert signin.first_admin() == admin
    assert all(can(admin, role) for role in Role)


def test_the_command_makes_an_account_of_a_role(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("signin_link", "--user", "sam", "--role", "operator")
    link = capsys.readouterr().out.strip()
    assert link.startswith("http://localhost:")
    user = User.objects.get(username="sam")
    assert can(user, Role.OPERATOR)
    assert not can(user, Role.REVIEWER)


def test_the_command_refuses_an_empty_name() -> None:
    with pytest.raises(CommandError, match="--user needs a name"):
        call_command("signin_link", "--user", "  ")


def test_a_link_leads_to_where_the_site_is_served(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ADAEXPLORE_DATA", str(tmp_path))
    monkeypatch.setenv("PORT", "8765")
    served = []
    for address in ("http://localhost:8123", None):
        signin.address_keep(address)
        call_command("signin_link")
        served.append(capsys.readouterr().out.partition("/sign-in")[0])
    assert served == ["http://localhost:8123", "http://localhost:8765"]
    call_command("signin_link", "--address", "https://ada.example/")
    assert capsys.readouterr().out.startswith("https://ada.example/sign-in/")
