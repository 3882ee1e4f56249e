"""Actions on webhooks: add, switch, test, remove. For admins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.urls import reverse
from django.utils import timezone

from adaexplore_site.actions.action import ActionForm, Call, Kind, Question, Result, Subject, missing
from adaexplore_site.actions.fields import TextListField
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry, Webhook
from adaexplore_site.core.outbox import EVENTS
from adaexplore_site.settings_pages.actions import SettingsAction
from adaexplore_site.webhooks import (
    pages,  # noqa: F401  adds the tab
    services,
)


class WebhookKind(Kind):
    name = "webhook"

    def subject(self, entry: AuditEntry, loaded: Any) -> Subject:
        address = entry.after.get("address") or entry.before.get("address", "")
        return Subject("webhook", str(address), reverse("settings-tab", args=["webhooks"]))


KIND = WebhookKind()


class AddForm(ActionForm):
    address = forms.CharField(max_length=5000, help_text="Where events are sent, such as https://example.org/hook.")
    event = TextListField(
        help_text=f"Such as {next(iter(EVENTS))}.", error_messages={"required": "Choose at least one event."}
    )


@register
class AddWebhook(SettingsAction):
    """Send events to an address. Its secret is shown once."""

    kind, tab = KIND, "webhooks"
    name, label, done = "webhook.add", "Add a webhook", "Added"
    Form, route = AddForm, "webhook-add"
    irreversible = "remove the webhook"

    def again(self, entry: AuditEntry) -> Result:
        raise ActionRefused("This form has added a webhook already. Remove it if its secret is lost, and add another.")

    def run(self, target: Any, data: dict[str, Any], call: Call) -> Result:
        assert call.user is not None
        hook, secret = services.webhook_add(address=data["address"], events=data["event"], user=call.user, key=call.key)
        return Result("The webhook is added.", shown_once={"secret": secret}, target=hook)


class WebhookAction(SettingsAction):
    """Something done to one webhook."""

    kind, tab = KIND, "webhooks"
    takes = ("webhook_id",)

    def locate(self, where: Mapping[str, Any]) -> Webhook:
        hook = Webhook.objects.filter(pk=where["webhook_id"]).first()
        if hook is None:
            raise missing("such webhook")
        return hook


class Switch(WebhookAction):
    """Switch a webhook on and off."""

    route = "webhook-switch"
    on: bool
    message: str

    def run(self, target: Webhook, data: dict[str, Any], call: Call) -> Result:
        assert call.user is not None
        services.webhook_switch(hook=target, on=self.on, user=call.user, key=call.key)
        return Result(self.message)


@register
class SwitchOn(Switch):
    """Send events to it again, also those that wait."""

    name, label, done = "webhook.on", "Switch a webhook on", "Switched on"
    sends, on, message = {"on": "1"}, True, "The webhook is on. Events that waited are sent now."
    irreversible = "switch it off in Settings"


@register
class SwitchOff(Switch):
    """Send nothing to it. Events wait."""

    name, label, done = "webhook.off", "Switch a webhook off", "Switched off"
    sends, on, message = {"on": ""}, False, "The webhook is off."
    irreversible = "switch it on in Settings"


@register
class TestWebhook(WebhookAction):
    """Send a test event."""

    __test__ = False  # no test class

    name, label, done = "webhook.test", "Test a webhook", "Tested"
    route = "webhook-test"
    irreversible = "a test changes nothing"

    def run(self, target: Webhook, data: dict[str, Any], call: Call) -> Result:
        assert call.user is not None
        services.webhook_test(hook=target, user=call.user, now=timezone.now(), key=call.key)
        return Result("The test event is queued. Reload this page in a few seconds to see the answer.")


@register
class RemoveWebhook(WebhookAction):
    """Delete a webhook with its secret and with the events that wait for it."""

    name, label, done = "webhook.remove", "Remove a webhook", "Removed"
    route, removes = "webhook-remove", True
    irreversible = "add it again; it gets a new secret"

    def question(self, target: Webhook, data: Mapping[str, Any]) -> Question:
        address = services.said(target.address)
        what = f"No more events are sent to {address}. Events that wait for it and its secret are deleted."
        return Question("Remove this webhook?", what, "Remove the webhook", self.home(target))

    def run(self, target: Webhook, data: dict[str, Any], call: Call) -> Result:
        assert call.user is not None
        services.webhook_remove(hook=target, user=call.user, key=call.key)
        return Result("The webhook is removed.")
