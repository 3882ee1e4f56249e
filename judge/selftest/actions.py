"""Actions on self-tests of the judge."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from kombu.exceptions import OperationalError

from adaexplore_site.actions.action import Action, Call, Kind, Question, Result, Subject, missing
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from judge.devices.services import judging_devices
from judge.selftest.models import SelfTest
from judge.selftest.services import STOP, selftest_queue, selftest_stop
from judge.tasks import run_self_test

log = logging.getLogger(__name__)
AWAY = _("The message broker is not available, so the self-test was not queued. Try again later.")


class SelfTestKind(Kind):
    name, noun = "selftest", "judge"
    aliases = ("selftest",)

    def subject(self, entry: AuditEntry, loaded: Any) -> Subject:
        name = str(entry.after.get("device", ""))
        return Subject("judge", name, reverse("self-test-detail", args=[name]) if name else "")


class SelfTestAction(Action):
    """Something done to the self-test of a device, on its page."""

    kind = SelfTestKind()
    takes = ("device",)
    pages = ("self-test-detail",)

    def locate(self, where: Mapping[str, Any]) -> Device:
        row = judging_devices().filter(name=where["device"]).first()
        if row is None:
            raise missing("such device that judges")
        return row

    def home(self, target: Device) -> str:
        return reverse("self-test-detail", args=[target.name])


@register
class StartSelfTest(SelfTestAction):
    """Queue a self-test for the device's worker. A second start while one is under way changes nothing."""

    name, label, done = "selftest.start", _("Start the self-test"), _("Self-test started")
    route = "self-test-start"
    own_words = True
    irreversible = _("a self-test changes nothing; searches on the device wait until it ends")

    def run(self, target: Device, data: dict[str, Any], call: Call) -> Result:
        selftest = selftest_queue(device=target, **call.who)
        if selftest is None:
            known = gettext("A self-test of %(device)s is already queued or running.")
            return Result(known % {"device": target.name})
        queued = gettext("The self-test is queued on %(device)s. Searches there wait until it ends.")
        return Result(
            queued % {"device": target.name},
            then=lambda: _send(selftest),
        )


@register
class StopSelfTest(SelfTestAction):
    """Stop the self-test of a device, whether it waits or runs, so that searches there go on."""

    name, label, done = STOP, _("Stop the self-test"), _("Self-test stopped")
    route = "self-test-stop"
    irreversible = _("start another one")

    def question(self, target: Device, data: Mapping[str, Any]) -> Question:
        return Question(
            ask=gettext("Stop the self-test of %(device)s?") % {"device": target.name},
            what=gettext("What was judged so far is not kept. The device is trusted as it was before."),
            yes=gettext("Stop"),
            back=self.home(target),
        )

    def run(self, target: Device, data: dict[str, Any], call: Call) -> Result:
        selftest_stop(device=target, **call.who)
        return Result(gettext("The self-test of %(device)s was stopped.") % {"device": target.name})


def _send(selftest: SelfTest) -> None:
    """Raises ActionRefused when no worker can be reached; the row says so."""
    device = selftest.device
    try:
        run_self_test.apply_async(args=[selftest.pk], queue=device.queue, retry=False)
    except OperationalError as error:
        log.warning("self-test of %s is not sent: the broker is away (%s)", device.name, error)
        SelfTest.objects.filter(pk=selftest.pk).update(state=SelfTest.State.FAILED, message=str(AWAY))
        raise ActionRefused(str(AWAY)) from error
