"""Acts of admins on webhooks: add, switch, try, remove."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.outbox import EVENTS, TEST
from adaexplore_site.core.webhook_models import Webhook, WebhookDelivery
from adaexplore_site.webhooks.guarding import BadAddress, parts_of, target_of
from adaexplore_site.webhooks.signing import secret_of

OBJECT = "webhook"
MOST_HOOKS = 50
SHOWN = 5  # last sendings beside each


@dataclass(frozen=True)
class HookRow:
    """A webhook with its last sendings, the newest first, and how many still wait."""

    hook: Webhook
    last: tuple[WebhookDelivery, ...]
    waiting: int

    @property
    def said(self) -> str:
        """The address for people who may not see what is in it."""
        return said(self.hook.address)


def hook_rows() -> list[HookRow]:
    """All of them. Two queries each: there are few."""
    return [
        HookRow(
            hook,
            tuple(hook.deliveries.all()[:SHOWN]),
            hook.deliveries.filter(state=WebhookDelivery.State.WAITING).count(),
        )
        for hook in Webhook.objects.select_related("owner")[:MOST_HOOKS]
    ]


def webhook_add(*, address: str, events: Collection[str], user: User, key: str | None = None) -> tuple[Webhook, str]:
    """A new webhook and its secret, shown once. Raises ActionRefused for an address that must not be reached."""
    address, wanted = address.strip(), [event for event in EVENTS if event in events]
    if not wanted:
        raise ActionRefused("Choose at least one event.")
    if len(address) > 500:
        raise ActionRefused("The address is longer than 500 characters.")
    try:
        parts_of(address)
        target_of(address)
    except BadAddress as error:
        raise ActionRefused(str(error)) from error
    with transaction.atomic():
        if action_done(key=key, verb="webhook.add") is not None:
            raise ActionRefused(
                "This form has added a webhook already. Remove it if its secret is lost, and add another."
            )
        if Webhook.objects.count() >= MOST_HOOKS:
            raise ActionRefused(f"There are {MOST_HOOKS} webhooks already. Remove one first.")
        hook = Webhook.objects.create(address=address, events=wanted, salt=secrets.token_hex(32), owner=user)
        after = {"address": said(address), "events": wanted}
        action_on(verb="webhook.add", on=(OBJECT, hook.pk), user=user, key=key, after=after)
    return hook, secret_of(hook)


def webhook_switch(*, hook: Webhook, on: bool, user: User, key: str | None = None) -> AuditEntry | None:
    """Send to it, or no longer; what waits goes on waiting. None when that is so already."""
    verb = "webhook.on" if on else "webhook.off"
    with transaction.atomic():
        done = action_done(key=key, verb=verb)
        if done is not None:
            return done
        if not Webhook.objects.filter(pk=hook.pk).exclude(on=on).update(on=on):
            return None
        after = {"address": said(hook.address)}
        return action_on(verb=verb, on=(OBJECT, hook.pk), user=user, key=key, after=after)


def webhook_test(*, hook: Webhook, user: User, now: datetime, key: str | None = None) -> AuditEntry:
    """Send it a test event. Raises ActionRefused while it is off."""
    if not hook.on:
        raise ActionRefused("This webhook is off. Switch it on first.")
    with transaction.atomic():
        done = action_done(key=key, verb="webhook.test")
        if done is not None:
            return done
        body = {"message": "A test of this webhook.", "by": user.get_username()}
        WebhookDelivery.objects.create(webhook=hook, event=TEST, body=body, lease_until=now)
        after = {"address": said(hook.address)}
        return action_on(verb="webhook.test", on=(OBJECT, hook.pk), user=user, key=key, after=after)


def webhook_remove(*, hook: Webhook, user: User, key: str | None = None) -> AuditEntry:
    """Forget it with everything that waits for it."""
    with transaction.atomic():
        done = action_done(key=key, verb="webhook.remove")
        if done is not None:
            return done
        before = {"address": said(hook.address), "events": hook.events}
        pk = hook.pk
        hook.delete()
        return action_on(verb="webhook.remove", on=(OBJECT, pk), user=user, key=key, before=before, after={})


def said(address: str) -> str:
    """An address for the audit, which everybody reads: without its query, where others put secrets."""
    try:
        parts = parts_of(address)
    except BadAddress:  # of a row that is older than what is asked of addresses now
        return "an address that is none"
    return f"{parts.scheme}://{parts.netloc}{'/…' if len(parts.path) > 1 or parts.query else ''}"
