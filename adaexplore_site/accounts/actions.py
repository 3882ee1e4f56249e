"""Actions on members and on API tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.accounts import (
    pages,  # noqa: F401  adds the tabs
    services,
)
from adaexplore_site.accounts.models import ApiToken
from adaexplore_site.accounts.services import LONGEST_DAYS, SCOPES, token_issue, token_revoke
from adaexplore_site.actions.action import CHANGED, UNDO, ActionForm, Call, Kind, Result, Standing, Subject
from adaexplore_site.actions.fields import TextListField
from adaexplore_site.actions.registry import register
from adaexplore_site.core.access import Role, can
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.settings_pages.actions import SettingsAction

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

People = Mapping[str, User]


class MemberKind(Kind):
    name, noun = "user", _("member")
    aliases = ("member",)

    def objects(self) -> QuerySet[User]:
        return User.objects.all()

    def load(self, entries: Sequence[AuditEntry]) -> People:
        people = User.objects.prefetch_related("groups").in_bulk({int(entry.object_id) for entry in entries})
        return {str(pk): person for pk, person in people.items()}

    def subject(self, entry: AuditEntry, loaded: People) -> Subject | None:
        person = loaded.get(entry.object_id)
        return None if person is None else Subject(self.noun, person.username)


class TokenKind(Kind):
    name, noun = "token", _("token")

    def objects(self) -> QuerySet[ApiToken]:
        return ApiToken.objects.all()

    def subject(self, entry: AuditEntry, loaded: Any) -> Subject:
        return Subject(self.noun, str(entry.after.get("name", "")), reverse("settings-tab", args=["tokens"]))


MEMBER, TOKEN = MemberKind(), TokenKind()


class RolesForm(ActionForm):
    role = TextListField(
        required=False,
        help_text=format_lazy(_("Roles in addition to viewer: {roles}."), roles=", ".join(list(Role)[1:])),
    )


class InviteForm(RolesForm):
    name = forms.CharField(
        max_length=200,
        help_text=_("User name: letters, digits and . @ + - _"),
        error_messages={"required": _("A user name has 1 to 60 letters, digits or . @ + - _ and no blanks.")},
    )


class MemberAction(SettingsAction):
    """Something done to an account."""

    kind, tab = MEMBER, "members"
    takes = ("user_id",)

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
    name, label, done = "member.invite", _("Invite a member"), _("Invited")
    Form, route, path = InviteForm, "member-invite", "settings/members/invite"
    irreversible = _("switch the account off")

    def again(self, entry: AuditEntry) -> Result:
        message = gettext("%(name)s was invited by this form already. Make a new link in the list.")
        raise ActionRefused(message % {"name": entry.after["name"]})

    def run(self, target: Any, data: dict[str, Any], call: Call) -> Result:
        member, path = services.member_invite(name=data["name"], roles=data["role"], **call.who)
        return Result(
            gettext("%(name)s is invited.") % {"name": member.username}, shown_once={"link": path}, target=member
        )


@register
class SetRoles(MemberAction):
    """Give a member exactly these roles."""

    name, label, done = "member.roles", _("Change a member's roles"), _("Roles changed")
    Form, route, path = RolesForm, "member-roles", "settings/members/<int:user_id>/roles"

    def run(self, target: User, data: dict[str, Any], call: Call) -> Result:
        services.member_roles(member=target, roles=data["role"], **call.who)
        return Result(gettext("The roles of %(name)s are set.") % {"name": target.username})

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        services.member_roles(member=self.kind.find(entry), roles=entry.before["roles"], **call.who)
        return Result()


@register
class MakeLink(MemberAction):
    """Create a sign-in link that works once."""

    name, label, done = "member.link", _("Create a sign-in link"), _("Sign-in link created")
    route, path = "member-link", "settings/members/<int:user_id>/link"
    irreversible = _("the link is used once or expires")

    def run(self, target: User, data: dict[str, Any], call: Call) -> Result:
        path = services.member_link(member=target, **call.who)
        message = gettext("A sign-in link for %(name)s is ready.") % {"name": target.username}
        return Result(message, shown_once={"link": path}, target=target)


class Access(MemberAction):
    """Switch an account off and on: each takes the other back."""

    route, path = "member-access", "settings/members/<int:user_id>/access"
    active: bool
    message: StrOrPromise

    def run(self, target: User, data: dict[str, Any], call: Call) -> Result:
        services.member_access(member=target, active=self.active, **call.who)
        return Result(str(self.message) % {"name": target.username})


@register
class SwitchOff(Access):
    """End a member's sessions and links."""

    name, label, done = "member.off", _("Switch a member off"), _("Switched off")
    sends, inverse, active = {"active": ""}, "member.on", False
    message = _("%(name)s is switched off.")


@register
class SwitchOn(Access):
    """Let a member sign in again."""

    name, label, done = "member.on", _("Switch a member on"), _("Switched on")
    sends, inverse, active = {"active": "1"}, "member.off", True
    message = _("%(name)s can sign in again.")


class IssueForm(ActionForm):
    name = forms.CharField(max_length=200, required=True, help_text=_("Where the token is used."))
    scope = TextListField(
        help_text=format_lazy(_("What it may do: {scopes}."), scopes=", ".join(SCOPES)),
        error_messages={"required": services.NO_SCOPE},
    )
    days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=LONGEST_DAYS,
        help_text=_("Days until the token expires; empty for no expiry."),
        error_messages={
            "invalid": _("Enter a whole number of days."),
            "min_value": services.WRONG_DAYS,
            "max_value": services.WRONG_DAYS,
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

    name, label, done = "token.issue", _("Issue a token"), _("Issued")
    Form, route, path = IssueForm, "token-issue", "settings/tokens/issue"
    irreversible = _("revoke the token")

    def again(self, entry: AuditEntry) -> Result:
        raise ActionRefused(
            gettext("This form already issued a token. If its text is lost, revoke the token and issue another.")
        )

    def run(self, target: Any, data: dict[str, Any], call: Call) -> Result:
        assert call.user is not None
        token, text = token_issue(
            name=data["name"], scopes=data["scope"], days=data["days"], user=call.user, now=timezone.now(), key=call.key
        )
        message = gettext("The token %(name)s is ready.") % {"name": token.name}
        return Result(message, shown_once={"token_text": text}, target=token)


@register
class RevokeToken(TokenAction):
    """End a token at once."""

    name, label, done = "token.revoke", _("Revoke a token"), _("Revoked")
    takes, route, path = ("token_id",), "token-revoke", "settings/tokens/<int:token_id>/revoke"
    irreversible = _("its text is not stored; issue a new token")

    def run(self, target: ApiToken, data: dict[str, Any], call: Call) -> Result:
        assert call.user is not None
        token_revoke(token=target, user=call.user, now=timezone.now(), key=call.key)
        message = gettext("The token %(name)s is revoked: requests with it are refused from now on.")
        return Result(message % {"name": target.name})
