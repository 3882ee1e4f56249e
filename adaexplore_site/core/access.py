"""Who may do what: four roles (groups of django.contrib.auth) and the checks that enforce them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, PermissionsMixin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.utils.translation import gettext


class Role(StrEnum):
    """Viewer reads and exports; operator also starts and steers; reviewer also decides rules; admin does all."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    REVIEWER = "reviewer"
    ADMIN = "admin"


def roles_of(user: AbstractBaseUser | AnonymousUser) -> frozenset[Role]:
    """The roles of `user`. Superusers and admins hold all of them; anyone signed in and active reads.

    One query per user object; the answer is kept on it.
    """
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    known: frozenset[Role] | None = getattr(user, "_adaexplore_roles", None)
    if known is None:
        assert isinstance(user, PermissionsMixin)
        names = set(user.groups.values_list("name", flat=True)) & set(Role)
        held = {Role(name) for name in names} | {Role.VIEWER}
        known = frozenset(Role) if user.is_superuser or Role.ADMIN in held else frozenset(held)
        user._adaexplore_roles = known  # type: ignore[attr-defined]
    return known


def can(user: AbstractBaseUser | AnonymousUser, role: Role) -> bool:
    """True when `user` holds `role` (admins hold every role)."""
    return role in roles_of(user)


def narrow(user: AbstractBaseUser, allowed: frozenset[Role]) -> None:
    """Leave this user object only the roles that are allowed, too: every later check of it sees no others."""
    user._adaexplore_roles = roles_of(user) & allowed  # type: ignore[attr-defined]


def require(user: AbstractBaseUser | AnonymousUser, *roles: Role) -> None:
    """Raise PermissionDenied with a sentence that names the roles, unless the user holds one of them."""
    if not any(can(user, role) for role in roles):
        names = gettext(" or ").join(f"'{role}'" for role in roles)
        message = gettext("This needs the role %(names)s. Ask an admin to add it to your account.")
        raise PermissionDenied(message % {"names": names})


def role_required(role: Role) -> Callable[[Callable[..., HttpResponseBase]], Callable[..., HttpResponseBase]]:
    """View decorator: 403 with a readable page unless the signed-in user holds `role`."""

    def decorate(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            require(request.user, role)
            return view(request, *args, **kwargs)

        guarded.required_role = role  # type: ignore[attr-defined]
        return guarded

    return decorate


def context(request: HttpRequest) -> dict[str, object]:
    """Template context: `roles`, a dict role name -> bool for the current user."""
    held = roles_of(request.user) if hasattr(request, "user") else frozenset()
    return {"roles": {role.value: role in held for role in Role}}
