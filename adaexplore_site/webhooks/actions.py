"""Actions on webhooks: add, switch, test, remove. For admins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django import forms
from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import ActionForm, Call, Kind, Question, Result, Subject
from adaexplore_site.actions.fields import TextListField
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused, action_on
from adaexplore_site.core.models import AuditEntry, Webhook, WebhookDelivery
from adaexplore_site.core.outbox import EVENTS, TEST
from adaexplore_site.settings_pages.actions import SettingsAction
from adaexplore_site.webhooks import (
    pages,  # noqa: F401  adds the tab
    services,
)

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class WebhookKind(Kind):
    name, noun = "webhook", _("webhook")

    def objects(self) -> QuerySet[Webhook]:
        return Webhook.objects.all()

    def subject(self, entry: AuditEntry, loaded: Any) -> Subject:
        address = entry.after.get("address") or entry.before.get("address", "")
        return Subject(self.noun, str(address), reverse("settings-tab", args=["webhooks"]))


KIND = WebhookKind()


class AddForm(ActionForm):
    address = forms.CharField(max_length=5000, help_text=_("Where events are sent, such as https://example.org/hook."))
    event = TextListField(
        help_text=format_lazy(_("Such as {event}."), event=next(iter(EVENTS))),
        error_messages={"required": _("Choose at least one event.")},
    )


@register
class AddWebhook(SettingsAction):
    """Send events to an address. Its secret is shown once."""

    kind, tab = KIND, "webhooks"
    name, label, done = "webhook.add", _("Add a webhook"), _("Added")
    Form, route, path = AddForm, "webhook-add", "settings/webhooks/add"
    irreversible = _("remove the webhook")

    def again(self, entry: AuditEntry) -> Result:
        raise ActionRefused(
            gettext("This form has added a webhook already. Remove it if its secret is lost, and add another.")
        )

    def run(self, target: Any, data: dict[str, Any], call: Call) -> Result:
        assert call.user is not None
        hook, secret = services.webhook_add(address=data["address"], events=data["event"], user=call.user, key=call.key)
        return Result(_("The webhook is added."), shown_once={"secret": secret}, target=hook)


class WebhookAction(SettingsAction):
    """Something done to one webhook."""

    kind, tab = KIND, "webhooks"
    takes = ("webhook_id",)

    def record(self, hook: Webhook, call: Call) -> None:
        """Write the entry of the audit log."""
        after = {"address": services.said(hook.address)}
        action_on(verb=self.name, on=(self.kind.name, hook.pk), after=after, **call.who)


class Switch(WebhookAction):
    """Switch a webhook on and off."""

    route, path = "webhook-switch", "settings/webhooks/<int:webhook_id>/switch"
    on: bool
    message: StrOrPromise

    def run(self, target: Webhook, data: dict[str, Any], call: Call) -> Result:
        if Webhook.objects.filter(pk=target.pk).exclude(on=self.on).update(on=self.on):
            self.record(target, call)
        return Result(self.message)


@register
class SwitchOn(Switch):
    """Send events to it again, also those that wait."""

    name, label, done = "webhook.on", _("Switch a webhook on"), _("Switched on")
    sends, on, message = {"on": "1"}, True, _("The webhook is on. Events that waited are sent now.")
    irreversible = _("switch it off in Settings")


@register
class SwitchOff(Switch):
    """Send nothing to it. Events wait."""

    name, label, done = "webhook.off", _("Switch a webhook off"), _("Switched off")
    sends, on, message = {"on": ""}, False, _("The webhook is off.")
    irreversible = _("switch it on in Settings")


@register
class TestWebhook(WebhookAction):
    """Send a test event."""

    __test__ = False  # no test class

    name, label, done = "webhook.test", _("Test a webhook"), _("Tested")
    route, path = "webhook-test", "settings/webhooks/<int:webhook_id>/test"
    irreversible = _("a test changes nothing")

    def run(self, target: Webhook, data: dict[str, Any], call: Call) -> Result:
        assert call.user is not None
        if not target.on:
            raise ActionRefused(gettext("This webhook is off. Switch it on first."))
        body = {"message": "A test of this webhook.", "by": call.user.get_username()}
        WebhookDelivery.objects.create(webhook=target, event=TEST, body=body, lease_until=timezone.now())
        self.record(target, call)
        return Result(_("The test event is queued. Reload this page in a few seconds to see the answer."))


@register
class RemoveWebhook(WebhookAction):
    """Delete a webhook with its secret and with the events that wait for it."""

    name, label, done = "webhook.remove", _("Remove a webhook"), _("Removed")
    route, path, removes = "webhook-remove", "settings/webhooks/<int:webhook_id>/remove", True
    irreversible = _("add it again; it gets a new secret")

    def question(self, target: Webhook, data: Mapping[str, Any]) -> Question:
        what = gettext("No more events are sent to %(address)s. Events that wait for it and its secret are deleted.")
        what %= {"address": services.said(target.address)}
        return Question(_("Remove this webhook?"), what, _("Remove the webhook"), self.home(target))

    def run(self, target: Webhook, data: dict[str, Any], call: Call) -> Result:
        before = {"address": services.said(target.address), "events": target.events}
        action_on(verb=self.name, on=(self.kind.name, target.pk), before=before, **call.who)
        target.delete()
        return Result(_("The webhook is removed."))
