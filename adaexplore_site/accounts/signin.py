"""Sign-in: password form, one-time link, sign-out. The only pages visible to strangers.

A link holds a token bound to the user's last sign-in, so using any link of a user voids all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model, login
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import Group, User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core import env
from adaexplore_site.core.access import Role


class LinkTokens(PasswordResetTokenGenerator):
    """Tokens valid for PASSWORD_RESET_TIMEOUT seconds and until the user's next sign-in."""

    key_salt = "adaexplore_site.signin.LinkTokens"


tokens = LinkTokens()


def first_admin() -> User:
    """The oldest active superuser; created as "admin" (no password) when there is none."""
    users = get_user_model().objects
    admin = users.filter(is_superuser=True, is_active=True).order_by("pk").first()
    return admin or user_ensure(name="admin", role=Role.ADMIN, superuser=True)


def user_ensure(*, name: str, role: Role, superuser: bool = False) -> User:
    """The user `name`, created without a password when new, holding at least `role`."""
    user, created = get_user_model().objects.get_or_create(username=name)
    if created:
        user.set_unusable_password()
        user.is_superuser = superuser
        user.save()
    user.groups.add(Group.objects.get_or_create(name=role.value)[0])
    return user


def link_path(user: User) -> str:
    """Path of a fresh one-time sign-in link for `user`."""
    uid = urlsafe_base64_encode(str(user.pk).encode())
    return reverse("sign-in-link", args=[uid, tokens.make_token(user)])


def address_keep(address: str | None) -> None:
    """Write down where `manage.py up` serves, for links made in another shell; None: it serves no longer."""
    if address is None:
        _address_file().unlink(missing_ok=True)
    else:
        _address_file().write_text(address)


def address_of_site() -> str:
    """Where the site is: as `up` wrote down, else the machine itself at PORT."""
    try:
        return _address_file().read_text().strip()
    except OSError:
        return f"http://localhost:{env.integer('PORT', 8000, minimum=1, maximum=65535)}"


def _address_file() -> Path:
    return env.data_dir() / "address"


@never_cache
@require_safe
@login_not_required
def sign_in_link(request: HttpRequest, uid: str, token: str) -> HttpResponse:
    """Sign in by a one-time link. A used or old link shows the sign-in page with what to do (status 410).

    Whoever is signed in to its account already is led on.
    """
    user = _user_of(uid)
    if request.method == "HEAD":  # link previews must not use it up
        return HttpResponse()
    if user is None or not user.is_active or not tokens.check_token(user, token):
        if user is not None and request.user == user:
            return redirect(settings.LOGIN_REDIRECT_URL)
        context = {"form": None, "link_expired": True}
        return render(request, "accounts/sign_in.html", context, status=410)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect(settings.LOGIN_REDIRECT_URL)


def _user_of(uid: str) -> User | None:
    try:
        key = int(urlsafe_base64_decode(uid).decode())
    except (ValueError, UnicodeDecodeError):
        return None
    return get_user_model().objects.filter(pk=key).first()


urlpatterns: list[Any] = [
    path("sign-in/", auth_views.LoginView.as_view(template_name="accounts/sign_in.html"), name="sign-in"),
    path("sign-in/<str:uid>/<str:token>/", sign_in_link, name="sign-in-link"),
    path("sign-out/", auth_views.LogoutView.as_view(), name="sign-out"),
]
