"""Settings, Webhooks: add one, see its secret once, try it, switch it, remove it. For admins."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from adaexplore_site.access import Role, role_required
from adaexplore_site.audit import ActionRefused
from adaexplore_site.gate import question
from adaexplore_site.models import Webhook
from adaexplore_site.requests import SiteRequest, form_key
from adaexplore_site.settings_views import tab_page
from adaexplore_site.webhooks import desk


@role_required(Role.ADMIN)
@require_POST
def add(request: SiteRequest) -> HttpResponse:
    """A new webhook; the page shows its secret, once."""
    address, events = request.POST.get("address", ""), request.POST.getlist("event")
    try:
        hook, secret = desk.webhook_add(address=address, events=events, user=request.user, key=form_key(request))
    except ActionRefused as error:
        typed = {"typed": address[:500], "typed_events": events}
        return tab_page(request, "webhooks", status=409, refused=str(error), **typed)
    return tab_page(request, "webhooks", made=hook, secret=secret)


@role_required(Role.ADMIN)
@require_POST
def switch(request: SiteRequest, webhook_id: int) -> HttpResponse:
    """Send to it (`on` is not empty), or no longer."""
    hook, on = get_object_or_404(Webhook, pk=webhook_id), bool(request.POST.get("on"))
    try:
        desk.webhook_switch(hook=hook, on=on, user=request.user, key=form_key(request))
    except ActionRefused as error:
        return tab_page(request, "webhooks", status=409, refused=str(error))
    messages.success(request, "The webhook is on: what waited for it is sent now." if on else "The webhook is off.")
    return redirect("settings-tab", tab="webhooks")


@role_required(Role.ADMIN)
@require_POST
def test(request: SiteRequest, webhook_id: int) -> HttpResponse:
    """Send it a test event."""
    hook = get_object_or_404(Webhook, pk=webhook_id)
    try:
        desk.webhook_test(hook=hook, user=request.user, now=timezone.now(), key=form_key(request))
    except ActionRefused as error:
        return tab_page(request, "webhooks", status=409, refused=str(error))
    messages.info(request, "The test is on its way; reload this page in a few seconds to see the answer.")
    return redirect("settings-tab", tab="webhooks")


@role_required(Role.ADMIN)
@require_POST
def remove(request: SiteRequest, webhook_id: int) -> HttpResponse:
    """Forget it, once the person is sure."""
    hook = get_object_or_404(Webhook, pk=webhook_id)
    what = f"{desk.said(hook.address)} is told of nothing any more. What waits for it is lost, and so is its secret."
    back = reverse("settings-tab", args=["webhooks"])
    asked = question(request, ask="Remove this webhook?", what=what, yes="Remove the webhook", back=back)
    if asked is not None:
        return asked
    try:
        desk.webhook_remove(hook=hook, user=request.user, key=form_key(request))
    except ActionRefused as error:
        return tab_page(request, "webhooks", status=409, refused=str(error))
    messages.success(request, "The webhook is removed.")
    return redirect("settings-tab", tab="webhooks")


urlpatterns = [
    path("settings/webhooks/add", add, name="webhook-add"),
    path("settings/webhooks/<int:webhook_id>/switch", switch, name="webhook-switch"),
    path("settings/webhooks/<int:webhook_id>/test", test, name="webhook-test"),
    path("settings/webhooks/<int:webhook_id>/remove", remove, name="webhook-remove"),
]
