"""Members and their API tokens."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Q
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.accounts.models import ApiToken
from adaexplore_site.accounts.signin import link_path, user_ensure
from adaexplore_site.core.access import Role, narrow, roles_of
from adaexplore_site.core.audit import ActionRefused, action_on
from adaexplore_site.core.models import AuditEntry

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


MEMBER = "user"
_NAME = re.compile(r"[\w.@+-]{1,60}")


def member_invite(
    *, name: str, roles: Collection[str], user: AbstractBaseUser | None, key: str | None = None
) -> tuple[User, str]:
    """A new account and the path of its one-time sign-in link. Raises ActionRefused."""
    _signed_in(user)
    wanted = _roles(roles)
    if not _NAME.fullmatch(name):
        raise ActionRefused(gettext("A user name has 1 to 60 letters, digits or . @ + - _ and no blanks."))
    with transaction.atomic():
        if User.objects.filter(username__iexact=name).exists():
            message = gettext("There is an account called %(name)s already. Change its roles in the list instead.")
            raise ActionRefused(message % {"name": name})
        member = user_ensure(name=name, role=Role.VIEWER)
        _put(member, wanted)
        after = {"name": name, "roles": sorted(wanted), "active": True}
        action_on(verb="member.invite", on=(MEMBER, member.pk), user=user, key=key, after=after)
    return member, link_path(member)


def member_roles(
    *, member: User, roles: Collection[str], user: AbstractBaseUser | None, key: str | None = None
) -> AuditEntry | None:
    """Give the member exactly these roles; None when it has them already. Raises ActionRefused."""
    _signed_in(user)
    wanted = _roles(roles)
    with transaction.atomic():
        row = _locked(member)
        before = roles_held(row)
        if before == wanted:
            return None
        if Role.ADMIN.value not in wanted:
            _others(row)
        _put(row, wanted)
        was, now = {"roles": sorted(before)}, {"roles": sorted(wanted)}
        return action_on(verb="member.roles", on=(MEMBER, row.pk), user=user, key=key, before=was, after=now)


def member_access(
    *, member: User, active: bool, user: AbstractBaseUser | None, key: str | None = None
) -> AuditEntry | None:
    """Let the member sign in, or no longer: open sessions and links end. None when that is so already."""
    verb = "member.on" if active else "member.off"
    with transaction.atomic():
        row = _locked(member)
        if row.is_active == active:
            return None
        if not active:
            if user is not None and row.pk == user.pk:
                raise ActionRefused(gettext("You cannot switch yourself off. Ask another admin."))
            _others(row)
        row.is_active = active
        row.save(update_fields=["is_active"])
        was = {"active": not active}
        return action_on(verb=verb, on=(MEMBER, row.pk), user=user, key=key, before=was, after={"active": active})


def member_link(*, member: User, user: AbstractBaseUser | None, key: str | None = None) -> str:
    """The path of a fresh one-time sign-in link. Raises ActionRefused for a member that is switched off."""
    _signed_in(user)
    if not member.is_active:
        message = gettext("%(name)s is switched off. Switch the account on first.")
        raise ActionRefused(message % {"name": member.username})
    action_on(verb="member.link", on=(MEMBER, member.pk), user=user, key=key)
    return link_path(member)


def _signed_in(user: AbstractBaseUser | None) -> None:
    """Raise ActionRefused for a token: what it gives to an account would outlive it."""
    if getattr(user, "via", ""):
        raise ActionRefused(
            gettext("A token cannot give access that would outlive it. Sign in and use Settings, Members.")
        )


def roles_held(member: User) -> set[str]:
    """The roles given to the member; viewer is everybody's, and a superuser is an admin."""
    names = {group.name for group in member.groups.all()} & {role.value for role in Role}
    return names | {Role.VIEWER.value} | ({Role.ADMIN.value} if member.is_superuser else set())


def _roles(names: Collection[str]) -> set[str]:
    if unknown := sorted(set(names) - {role.value for role in Role}):
        message = gettext("There is no role %(name)r. Choose from: %(roles)s.")
        raise ActionRefused(message % {"name": unknown[0][:40], "roles": ", ".join(Role)})
    return {*names, Role.VIEWER.value}


def _locked(member: User) -> User:
    """The account, with all others locked, too: two admins that switch each other off must not both succeed."""
    return {row.pk: row for row in User.objects.select_for_update().order_by("pk")}[member.pk]


def _others(member: User) -> None:
    """Raise ActionRefused when the member is the last active admin."""
    admins = User.objects.filter(is_active=True).exclude(pk=member.pk)
    mine = Role.ADMIN.value in roles_held(member)
    left = admins.filter(is_superuser=True).exists() or admins.filter(groups__name=Role.ADMIN.value).exists()
    if mine and not left:
        message = gettext("%(name)s is the last admin. Give another member the role admin first.")
        raise ActionRefused(message % {"name": member.username})


def _put(member: User, roles: Collection[str]) -> None:
    member.groups.remove(*Group.objects.filter(name__in=[role.value for role in Role]))
    member.groups.add(*(Group.objects.get_or_create(name=name)[0] for name in sorted(roles)))
    if member.is_superuser and Role.ADMIN.value not in roles:
        member.is_superuser = False
        member.save(update_fields=["is_superuser"])


TOKEN = "token"
BEGIN = "ada_"  # so that a scanner of secrets knows one
SCOPES: Mapping[str, frozenset[Role]] = {
    "read": frozenset({Role.VIEWER}),
    "steer": frozenset({Role.VIEWER, Role.OPERATOR}),
    "review": frozenset({Role.VIEWER, Role.REVIEWER}),
    "admin": frozenset(Role),
}
NEEDS = {"read": Role.VIEWER, "steer": Role.OPERATOR, "review": Role.REVIEWER, "admin": Role.ADMIN}
SCOPE_WORDS = {
    "read": _("read and export"),
    "steer": _("also start and steer searches"),
    "review": _("also decide rules and failures"),
    "admin": _("everything you may do, settings included"),
}
LONGEST_DAYS = 366
NO_SCOPE = format_lazy(_("Choose what the token may do: {scopes}."), scopes=", ".join(SCOPES))
WRONG_DAYS = format_lazy(_("A token expires after 1 to {days} days, or never."), days=LONGEST_DAYS)
MOST_LISTED = 500
USED_EVERY = timedelta(minutes=1)  # the last use is written at most that often


def token_issue(
    *,
    name: str,
    scopes: Collection[str],
    days: int | None,
    user: User,
    now: datetime,
    key: str | None = None,
) -> tuple[ApiToken, str]:
    """A new token of `user` and its text, which nobody can read again. `days` until it ends, None: never.

    Raises ActionRefused for a scope that the user's roles do not cover.
    """
    if getattr(user, "via", ""):
        raise ActionRefused(
            gettext("A token cannot issue another token, which could outlive it. Sign in and use Settings, Tokens.")
        )
    if unknown := sorted(set(scopes) - SCOPES.keys()):
        message = gettext("There is no scope %(name)r. Choose from: %(scopes)s.")
        raise ActionRefused(message % {"name": unknown[0][:40], "scopes": ", ".join(SCOPES)})
    name, wanted = " ".join(name.split()), sorted(set(scopes), key=list(SCOPES).index)
    if not 1 <= len(name) <= 60:
        raise ActionRefused(gettext("Give the token a name of 1 to 60 characters that says where it will be used."))
    if not wanted:
        raise ActionRefused(str(NO_SCOPE))
    lacking = [scope for scope in wanted if NEEDS[scope] not in roles_of(user)]
    if lacking:
        message = gettext("The scope %(scope)s needs the role %(role)s, which you do not have.")
        raise ActionRefused(message % {"scope": lacking[0], "role": NEEDS[lacking[0]]})
    if days is not None and not 1 <= days <= LONGEST_DAYS:
        raise ActionRefused(str(WRONG_DAYS))
    text = BEGIN + secrets.token_urlsafe(32)
    with transaction.atomic():
        token = ApiToken.objects.create(
            user=user,
            name=name,
            prefix=text[: len(BEGIN) + 6],
            digest=_digest(text),
            scopes=wanted,
            expires_at=None if days is None else now + timedelta(days=days),
        )
        after = {"name": name, "scopes": wanted, "days": days}
        action_on(verb="token.issue", on=(TOKEN, token.pk), user=user, key=key, after=after)
    return token, text


def token_revoke(
    *, token: ApiToken, user: AbstractBaseUser, now: datetime, key: str | None = None
) -> AuditEntry | None:
    """End a token at once; None when it has ended before. One's own, or anybody's for an admin."""
    if token.user_id != user.pk and Role.ADMIN not in roles_of(user):
        raise ActionRefused(gettext("This token belongs to another member. Ask an admin to revoke it."))
    with transaction.atomic():
        if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            return None
        return action_on(verb="token.revoke", on=(TOKEN, token.pk), user=user, key=key, after={"name": token.name})


@dataclass(frozen=True)
class TokenRow:
    """A token in the list: `ended` says why it is of no use any more, in a word."""

    token: ApiToken
    ended: str


def token_rows(user: User, *, now: datetime) -> list[TokenRow]:
    """One's own tokens, for an admin everybody's; those in use first. One query."""
    tokens = ApiToken.objects.select_related("user").order_by("-id")
    if Role.ADMIN not in roles_of(user):
        tokens = tokens.filter(user=user)
    return sorted((TokenRow(one, _ended(one, now)) for one in tokens[:MOST_LISTED]), key=lambda row: bool(row.ended))


def _ended(token: ApiToken, now: datetime) -> str:
    if token.revoked_at is not None:
        return gettext("revoked")
    return gettext("expired") if token.expires_at is not None and token.expires_at <= now else ""


def user_of(text: str, *, now: datetime) -> User | None:
    """Who a token speaks for, with no more roles than its scopes leave; None when it is unknown or has ended."""
    digest = _digest(text)
    token = ApiToken.objects.select_related("user").filter(digest=digest).first()
    if token is None or not hmac.compare_digest(token.digest, digest) or not token.user.is_active:
        return None
    if _ended(token, now):
        return None
    if token.last_used_at is None or now - token.last_used_at >= USED_EVERY:
        stale = Q(last_used_at=None) | Q(last_used_at__lte=now - USED_EVERY)
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
    user = token.user
    narrow(user, frozenset().union(*(SCOPES[scope] for scope in token.scopes if scope in SCOPES)))
    user.via = token.name  # type: ignore[attr-defined]  # the audit writes it down
    return user


def _digest(text: str) -> str:
    """Not a password's slow hash: the text holds 256 random bits, which nobody can try out."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
