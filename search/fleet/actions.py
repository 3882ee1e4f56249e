"""Actions on devices, and taking an evaluation back from one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.db.models import Max
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import (
    REPLACED,
    UNDO,
    Action,
    ActionForm,
    Call,
    Kind,
    Question,
    Recorded,
    Result,
    Standing,
    Subject,
    missing,
)
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from judge.devices.services import DRIFTED, VERBS
from search.fleet.services import (
    CHECK,
    REVOKE,
    STOP,
    device_check_ask,
    device_state_set,
    node_revoke,
    node_stop,
)
from search.records.kinds import RUN, RunEntries
from search.records.models import Node
from search.records.queue import check_send, send

BROKER_AWAY = _("The message broker is not available, so no worker was notified. Try again later.")


@dataclass(frozen=True)
class DeviceEntries:
    """The devices of some entries of the audit log; `newest` holds of each device the last change of its state."""

    devices: Mapping[str, Device]
    newest: frozenset[int]


class DeviceKind(Kind):
    name = "device"

    def load(self, entries: Sequence[AuditEntry]) -> DeviceEntries:
        keys = {entry.object_id for entry in entries}
        changes = AuditEntry.objects.filter(object_type=self.name, object_id__in=keys, verb__in=VERBS.values())
        newest = changes.order_by().values("object_id").annotate(last=Max("pk")).values_list("last", flat=True)
        devices = {str(device.pk): device for device in Device.objects.filter(pk__in=keys)}
        return DeviceEntries(devices, frozenset(newest))

    def subject(self, entry: AuditEntry, loaded: DeviceEntries) -> Subject | None:
        device = loaded.devices.get(entry.object_id)
        if device is None:
            return None
        return Subject("device", device.name, reverse("device-detail", args=[device.pk]))

    def find(self, entry: AuditEntry) -> Device:
        device = Device.objects.filter(pk=entry.object_id).first()
        if device is None:
            raise ActionRefused(gettext("The device no longer exists."))
        return device

    def now(self, target: Device) -> dict[str, Any]:
        state = Device.objects.values_list("state", flat=True).get(pk=target.pk)
        return {**super().now(target), "state": state}


DEVICE = DeviceKind()


class ReasonForm(ActionForm):
    reason = forms.CharField(required=False, help_text=_("Stored with the change, up to 300 characters"))


class DeviceAction(Action):
    """What is done to a device, on its page."""

    kind = DEVICE
    takes = ("device_id",)
    pages = ("device-detail",)

    def locate(self, where: Mapping[str, Any]) -> Device:
        device = Device.objects.filter(pk=where["device_id"]).first()
        if device is None:
            raise missing("such device")
        return device

    def again(self, entry: AuditEntry) -> Result:
        """The page that asked, as after the first call."""
        return Result()

    def home(self, target: Device) -> str:
        return reverse("device-detail", args=[target.pk])


class StateAction(DeviceAction):
    """Puts a device into `state`. The last such action can be undone: it puts the device back."""

    route, path = "device-state", "devices/<int:device_id>/state"
    Form = ReasonForm
    state: Device.State

    def run(self, target: Device, data: dict[str, Any], call: Call) -> Result:
        paused = device_state_set(device=target, state=self.state, reason=data["reason"], **call.who)
        message = gettext("%(device)s is %(state)s.") % {"device": target.name, "state": self.state.label.lower()}
        if paused:
            count = len(paused)
            text = ngettext("%(count)d running search paused.", "%(count)d running searches paused.", count)
            message += " " + text % {"count": count}
        return Result(message)

    def standing(self, entry: AuditEntry, loaded: DeviceEntries) -> Standing:
        device = loaded.devices.get(entry.object_id)
        if device is None:
            return Standing(why_not=gettext("the device no longer exists"))
        if entry.before.get("state") not in Device.State.values or entry.before["state"] == self.state:
            return Standing(why_not=gettext("the state did not change"))
        return UNDO if entry.pk in loaded.newest and device.state == self.state else REPLACED

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        device_state_set(device=DEVICE.find(entry), state=Device.State(entry.before["state"]), **call.who)
        return Result(gettext("Undone."))


@register
class ActivateDevice(StateAction):
    """Let a device take searches again. Those that were paused are resumed one by one."""

    name, label, done = "device.activate", _("Activate the device"), _("Activated")
    state, sends = Device.State.ACTIVE, {"state": Device.State.ACTIVE.value}
    inverse = "device.drain"


@register
class DrainDevice(StateAction):
    """Take no new searches on a device, and go on with those it has."""

    name, label, key, done = "device.drain", _("Drain the device"), "d", _("Drained")
    state, sends = Device.State.DRAINING, {"state": Device.State.DRAINING.value}
    inverse = "device.activate"


@register
class QuarantineDevice(StateAction):
    """Do not trust the verdicts of a device. Its running searches are paused."""

    name, label, done = "device.quarantine", _("Quarantine the device"), _("Quarantined")
    state, sends = Device.State.QUARANTINED, {"state": Device.State.QUARANTINED.value}
    inverse = "device.activate"


@register
class CheckDevice(DeviceAction):
    """Have the device's worker calibrate it. A check that passes ends a quarantine that the judge began."""

    name, label, done = CHECK, _("Check the device"), _("Check requested")
    route, path = "device-check", "devices/<int:device_id>/check"
    irreversible = _("a check changes nothing unless it fails")

    def run(self, target: Device, data: dict[str, Any], call: Call) -> Result:
        asked = device_check_ask(device=target, **call.who)
        text = gettext("The check is queued for the worker of %(device)s. Reload this page in a few seconds.")
        return Result(text % {"device": target.name}, then=lambda: _check_send(target, asked))


def _check_send(device: Device, asked: AuditEntry | None) -> None:
    """Raises ActionRefused when the broker is away."""
    if not check_send(device, asked):
        raise ActionRefused(str(BROKER_AWAY))


@register
class Drifted(Recorded):
    """The judge found that kernels take longer or shorter than their baselines say."""

    kind = DEVICE
    name, done = DRIFTED, _("Marked its baselines as out of date")
    irreversible = _("done by the judge")


class EvaluationAction(Action):
    """Something done to the evaluation of a node that waits for a device or is on it."""

    kind = RUN
    takes = ("run_id", "number")

    def locate(self, where: Mapping[str, Any]) -> Node:
        nodes = Node.objects.select_related("run__device", "run__problem")
        node = nodes.filter(run=where["run_id"], number=where["number"]).first()
        if node is None:
            raise missing("such node")
        return node

    def again(self, entry: AuditEntry) -> Result:
        """The page that asked, as after the first call."""
        return Result()


@register
class RevokeNode(EvaluationAction):
    """Take an evaluation back from a device and queue it again, for a worker that hangs or a device in doubt."""

    name, label = REVOKE, _("Requeue the evaluation")
    route, path = "node-revoke", "s/<int:run_id>/n/<int:number>/revoke"
    irreversible = _("what its worker has done so far is lost")

    def home(self, target: Node) -> str:
        return reverse("device-list")

    def question(self, target: Node, data: Mapping[str, Any]) -> Question:
        return Question(
            ask=gettext("Requeue node %(number)d of %(device)s?")
            % {"number": target.number, "device": target.run.device.name},
            what=gettext(
                "It is judged again from the beginning. Its worker gives it up within a second, and its result is "
                "ignored."
            ),
            yes=gettext("Requeue"),
            back=reverse("device-list"),
        )

    def run(self, target: Node, data: dict[str, Any], call: Call) -> Result:
        follow_ups = node_revoke(node=target, **call.who)
        text = gettext("Node %(number)d of search %(search)d is queued again.")
        return Result(text % {"number": target.number, "search": target.run_id}, then=lambda: send(follow_ups))

    def describe(self, entry: AuditEntry, loaded: RunEntries) -> str:
        text = gettext("Node %(number)s was taken from its device and queued again")
        return text % {"number": entry.after.get("number")}


@register
class StopEvaluation(EvaluationAction):
    """Stop the evaluation of a node, whether it waits or is on its device. The node is withdrawn without a verdict."""

    name, label = STOP, _("Stop the evaluation")
    pages = ("node-detail", "run-detail", "device-list")
    route, path = "node-stop", "s/<int:run_id>/n/<int:number>/stop"
    irreversible = _("the search makes another step in its place")

    def home(self, target: Node) -> str:
        return reverse("node-detail", args=[target.run_id, target.number])

    def question(self, target: Node, data: Mapping[str, Any]) -> Question:
        return Question(
            ask=gettext("Stop the evaluation of node %(number)d?") % {"number": target.number},
            what=gettext(
                "The node is withdrawn without a verdict. Its step is not used up: the search makes another one in its "
                "place. What the proposer was paid for it stays spent."
            ),
            yes=gettext("Stop"),
            back=self.home(target),
        )

    def run(self, target: Node, data: dict[str, Any], call: Call) -> Result:
        follow_ups = node_stop(node=target, **call.who)
        text = gettext("The evaluation of node %(number)d was stopped.") % {"number": target.number}
        return Result(text, then=lambda: send(follow_ups))

    def describe(self, entry: AuditEntry, loaded: RunEntries) -> str:
        return gettext("Evaluation of node %(number)s stopped") % {"number": entry.after.get("number")}
