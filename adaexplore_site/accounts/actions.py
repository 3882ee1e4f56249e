"""Actions on members and on API tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from adaexplore_site.accounts import (
    pages,  # noqa: F401  adds the tabs
    services,
)
from adaexplore_site.accounts.models import ApiToken
from adaexplore_site.accounts.services import LONGEST_DAYS, SCOPES, token_issue, token_revoke
from adaexplore_site.actions.action import CHANGED, UNDO, ActionForm, Call, Kind, Result, Standing, Subject, missing
from adaexplore_site.actions.fields import TextListField
from adaexplore_site.actions.registry import register
from adaexplore_site.core.access import Role, can
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.settings_pages.actions import SettingsAction

People = Mapping[str, User]


class MemberKind(Kind):
    name, noun = "user", "member"
    aliases = ("user",)

    def load(self, entries: Sequence[AuditEntry]) -> People:
        people = User.objects.prefetch_related("groups").in_bulk({int(entry.object_id) for entry in entries})
        return {str(pk): person for pk, person in people.items()}

    def subject(self, entry: AuditEntry, loaded: People) -> Subject | None:
        person = loaded.get(entry.object_id)
        return None if person is None else Subject("member", person.username)

    def find(self, entry: AuditEntry) -> User:
        person = User.objects.filter(pk=entry.object_id).first()
        if person is None:
            raise ActionRefused("The account no longer exists.")
        return person


class TokenKind(Kind):
    name = "token"

    def subject(self, entry: AuditEntry, loaded: Any) -> Subject:
        return Subject("token", str(entry.after.get("name", "")), reverse("settings-tab", args=["tokens"]))


MEMBER, TOKEN = MemberKind(), TokenKind()


class RolesForm(ActionForm):
    role = TextListField(required=False, help_text=f"Roles in addition to viewer: {', '.join(list(Role)[1:])}.")


class InviteForm(RolesForm):
    name = forms.CharField(
        max_length=200,
        help_text="User name: letters, digits and . @ + - _",
        error_messages={"required": "A user name has 1 to 60 letters, digits or . @ + - _ and no blanks."},
    )


class MemberAction(SettingsAction):
    """Something done to an account."""

    kind, tab = MEMBER, "members"
    takes = ("user_id",)

    def locate(self, where: Mapping[str, Any]) -> User:
        person = User.objects.filter(pk=where["user_id"]).first()
        if person is None:
            raise missing("such member")
        return person

    def standing(self, entry: AuditEntry, loaded: People) -> Standing:
        person = loaded.get(entry.object_id)
        if self.irreversible or person is None:
            return super().standing(entry, loaded)
        now = {"roles": sorted(services.roles_held(person)), "active": person.is_active}
        return UNDO if all(now[name] == value for name, value in entry.after.items()) else CHANGED


@register
class InviteMember(SettingsAction):
    """Create an account and a sign-in link."""

    kind, tab = MEMBER, "members"
    name, label, done = "member.invite", "Invite a member", "Invited"
    Form, route = InviteForm, "member-invite"
    irreversible = "switch the account off"

    def again(self, entry: AuditEntry) -> Result:
        raise ActionRefused(f"{entry.after['name']} was invited by this form already. Make a new link in the list.")

    def run(self, target: Any, data: dict[str, Any], call: Call) -> Result:
        member, path = services.member_invite(name=data["name"], roles=data["role"], **call.who)
        return Result(f"{member.username} is invited.", shown_once={"link": path}, target=member)


@register
class SetRoles(MemberAction):
    """Give a member exactly these roles."""

    name, label, done = "member.roles", "Change a member's roles", "Roles changed"
    Form, route = RolesForm, "member-roles"

    def run(self, target: User, data: dict[str, Any], call: Call) -> Result:
        services.member_roles(member=target, roles=data["role"], **call.who)
        return Result(f"The roles of {target.username} are set.")

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        services.member_roles(member=self.kind.find(entry), roles=entry.before["roles"], **call.who)
        return Result()


@register
class MakeLink(MemberAction):
    """Create a sign-in link that works once."""

    name, label, done = "member.link", "Create a sign-in link", "Sign-in link created"
    route = "member-link"
    irreversible = "the link is used once or expires"

    def run(self, target: User, data: dict[str, Any], call: Call) -> Result:
        path = services.member_link(member=target, **call.who)
        return Result(f"A sign-in link for {target.username} is ready.", shown_once={"link": path}, target=target)


class Access(MemberAction):
    """Switch an account off and on: each takes the other back."""

    route = "member-access"
    active: bool

    def run(self, target: User, data: dict[str, Any], call: Call) -> Result:
        services.member_access(member=target, active=self.active, **call.who)
        return Result(f"{target.username} {'can sign in again' if self.active else 'is switched off'}.")


@register
class SwitchOff(Access):
    """End a member's sessions and links."""

    name, label, done = "member.off", "Switch a member off", "Switched off"
    sends, inverse, active = {"active": ""}, "member.on", False


@register
class SwitchOn(Access):
    """Let a member sign in again."""

    name, label, done = "member.on", "Switch a member on", "Switched on"
    sends, inverse, active = {"active": "1"}, "member.off", True


class IssueForm(ActionForm):
    name = forms.CharField(max_length=200, required=True, help_text="Where the token is used.")
    scope = TextListField(
        help_text=f"What it may do: {', '.join(SCOPES)}.",
        error_messages={"required": f"Choose what the token may do: {', '.join(SCOPES)}."},
    )
    days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=LONGEST_DAYS,
        help_text="Days until the token expires; empty for no expiry.",
        error_messages={
            "invalid": "Enter a whole number of days.",
            "min_value": f"A token expires after 1 to {LONGEST_DAYS} days, or never.",
            "max_value": f"A token expires after 1 to {LONGEST_DAYS} days, or never.",
        },
    )


class TokenAction(SettingsAction):
    """Something done to a token: for operators and reviewers, each to their own."""

    kind, tab = TOKEN, "tokens"
    role = Role.OPERATOR

    def may(self, user: User) -> Role | None:
        return None if can(user, Role.REVIEWER) else super().may(user)


@register
class IssueToken(TokenAction):
    """Create a token for a program. Its text is shown once."""

    name, label, done = "token.issue", "Issue a token", "Issued"
    Form, route = IssueForm, "token-issue"
    irreversible = "revoke the token"

    def again(self, entry: AuditEntry) -> Result:
        raise ActionRefused(
            "This form already issued a token. If its text is lost, revoke the token and issue another."
        )

    def run(self, target: Any, data: dict[str, Any], call: Call) -> Result:
        assert call.user is not None
        token, text = token_issue(
            name=data["name"], scopes=data["scope"], days=data["days"], user=call.user, now=timezone.now(), key=call.key
        )
        return Result(f"The token {token.name} is ready.", shown_once={"token_text": text}, target=token)


@register
class RevokeToken(TokenAction):
    """End a token at once."""

    name, label, done = "token.revoke", "Revoke a token", "Revoked"
    takes, route = ("token_id",), "token-revoke"
    irreversible = "its text is not stored; issue a new token"

    def locate(self, where: Mapping[str, Any]) -> ApiToken:
        token = ApiToken.objects.filter(pk=where["token_id"]).first()
        if token is None:
            raise missing("such token")
        return token

    def run(self, target: ApiToken, data: dict[str, Any], call: Call) -> Result:
        assert call.user is not None
        token_revoke(token=target, user=call.user, now=timezone.now(), key=call.key)
        return Result(f"The token {target.name} is revoked: requests with it are refused from now on.")
