"""Accounts and what they may do: invite, change roles, sign-in links, switch off and on. Every act is in the audit."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from django.contrib.auth.models import Group, User
from django.db import transaction

from adaexplore_site.accounts.signin import link_path, user_ensure
from adaexplore_site.core.access import Role
from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

OBJECT = "user"
_NAME = re.compile(r"[\w.@+-]{1,60}")


def member_invite(
    *, name: str, roles: Collection[str], user: AbstractBaseUser | None, key: str | None = None
) -> tuple[User, str]:
    """A new account and the path of its one-time sign-in link. Raises ActionRefused."""
    _signed_in(user)
    wanted = _roles(roles)
    if not _NAME.fullmatch(name):
        raise ActionRefused("A user name has 1 to 60 letters, digits or . @ + - _ and no blanks.")
    with transaction.atomic():
        done = action_done(key=key, verb="member.invite")
        if done is not None:
            raise ActionRefused(f"{done.after['name']} was invited by this form already. Make a new link in the list.")
        if User.objects.filter(username__iexact=name).exists():
            raise ActionRefused(f"There is an account called {name} already. Change its roles in the list instead.")
        member = user_ensure(name=name, role=Role.VIEWER)
        _put(member, wanted)
        after = {"name": name, "roles": sorted(wanted), "active": True}
        action_on(verb="member.invite", on=(OBJECT, member.pk), user=user, key=key, after=after)
    return member, link_path(member)


def member_roles(
    *, member: User, roles: Collection[str], user: AbstractBaseUser | None, key: str | None = None
) -> AuditEntry | None:
    """Give the member exactly these roles; None when it has them already. Raises ActionRefused."""
    _signed_in(user)
    wanted = _roles(roles)
    with transaction.atomic():
        done = action_done(key=key, verb="member.roles")
        if done is not None:
            return done
        row = _locked(member)
        before = roles_held(row)
        if before == wanted:
            return None
        if Role.ADMIN.value not in wanted:
            _others(row, "Give another member the role admin first: nobody could change anything here.")
        _put(row, wanted)
        was, now = {"roles": sorted(before)}, {"roles": sorted(wanted)}
        return action_on(verb="member.roles", on=(OBJECT, row.pk), user=user, key=key, before=was, after=now)


def member_access(
    *, member: User, active: bool, user: AbstractBaseUser | None, key: str | None = None
) -> AuditEntry | None:
    """Let the member sign in, or no longer: open sessions and links end. None when that is so already."""
    verb = "member.on" if active else "member.off"
    with transaction.atomic():
        done = action_done(key=key, verb=verb)
        if done is not None:
            return done
        row = _locked(member)
        if row.is_active == active:
            return None
        if not active:
            if user is not None and row.pk == user.pk:
                raise ActionRefused("You cannot switch yourself off. Ask another admin.")
            _others(row, "Give another member the role admin first: nobody could switch it on again.")
        row.is_active = active
        row.save(update_fields=["is_active"])
        was = {"active": not active}
        return action_on(verb=verb, on=(OBJECT, row.pk), user=user, key=key, before=was, after={"active": active})


def member_link(*, member: User, user: AbstractBaseUser | None, key: str | None = None) -> str:
    """The path of a fresh one-time sign-in link. Raises ActionRefused for a member that is switched off."""
    _signed_in(user)
    if not member.is_active:
        raise ActionRefused(f"{member.username} is switched off. Switch the account on first.")
    if action_done(key=key, verb="member.link") is None:
        action_on(verb="member.link", on=(OBJECT, member.pk), user=user, key=key)
    return link_path(member)


def _signed_in(user: AbstractBaseUser | None) -> None:
    """Raise ActionRefused for a token: what it gives to an account would outlive it."""
    if getattr(user, "via", ""):
        raise ActionRefused("A token lets nobody in, which would outlive it. Sign in and use Settings, Members.")


def roles_held(member: User) -> set[str]:
    """The roles given to the member; viewer is everybody's, and a superuser is an admin."""
    names = {group.name for group in member.groups.all()} & {role.value for role in Role}
    return names | {Role.VIEWER.value} | ({Role.ADMIN.value} if member.is_superuser else set())


def _roles(names: Collection[str]) -> set[str]:
    unknown = sorted(set(names) - {role.value for role in Role})
    if unknown:
        raise ActionRefused(f"There is no role {unknown[0][:40]!r}. Choose from: {', '.join(Role)}.")
    return {*names, Role.VIEWER.value}


def _locked(member: User) -> User:
    """The account, with all others locked, too: two admins that switch each other off must not both succeed."""
    return {row.pk: row for row in User.objects.select_for_update().order_by("pk")}[member.pk]


def _others(member: User, advice: str) -> None:
    """Raise ActionRefused when the member is the last active admin."""
    admins = User.objects.filter(is_active=True).exclude(pk=member.pk)
    mine = Role.ADMIN.value in roles_held(member)
    left = admins.filter(is_superuser=True).exists() or admins.filter(groups__name=Role.ADMIN.value).exists()
    if mine and not left:
        raise ActionRefused(f"{member.username} is the last admin. {advice}")


def _put(member: User, roles: Collection[str]) -> None:
    member.groups.remove(*Group.objects.filter(name__in=[role.value for role in Role]))
    member.groups.add(*(Group.objects.get_or_create(name=name)[0] for name in sorted(roles)))
    if member.is_superuser and Role.ADMIN.value not in roles:
        member.is_superuser = False
        member.save(update_fields=["is_superuser"])
