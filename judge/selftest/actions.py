"""Actions on self-tests of the judge."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from kombu.exceptions import OperationalError

from adaexplore_site.actions.action import Action, Call, Kind, Result, Subject, missing
from adaexplore_site.actions.registry import register
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from judge.devices.services import judging_devices
from judge.selftest.models import SelfTest
from judge.selftest.services import selftest_queue
from judge.tasks import run_self_test

log = logging.getLogger(__name__)
AWAY = _("The message broker is not available, so the self-test was not queued. Try again later.")


class SelfTestKind(Kind):
    name, noun = "selftest", "judge"
    aliases = ("selftest",)

    def subject(self, entry: AuditEntry, loaded: Any) -> Subject:
        name = str(entry.after.get("device", ""))
        return Subject("judge", name, reverse("self-test-detail", args=[name]) if name else "")


@register
class StartSelfTest(Action):
    """Queue a self-test for the device's worker. A second start while one is under way changes nothing."""

    kind = SelfTestKind()
    name, label, done = "selftest.start", _("Start the self-test"), _("Self-test started")
    takes, route = ("device",), "self-test-start"
    pages = ("self-test-detail",)
    own_words = True
    irreversible = _("a self-test changes nothing; searches on the device wait until it ends")

    def locate(self, where: Mapping[str, Any]) -> Device:
        row = judging_devices().filter(name=where["device"]).first()
        if row is None:
            raise missing("such device that judges")
        return row

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

    def home(self, target: Device) -> str:
        return reverse("self-test-detail", args=[target.name])


def _send(selftest: SelfTest) -> None:
    """Raises ActionRefused when no worker can be reached; the row says so."""
    device = selftest.device
    try:
        run_self_test.apply_async(args=[selftest.pk], queue=device.queue, retry=False)
    except OperationalError as error:
        log.warning("self-test of %s is not sent: the broker is away (%s)", device.name, error)
        SelfTest.objects.filter(pk=selftest.pk).update(state=SelfTest.State.FAILED, message=str(AWAY))
        raise ActionRefused(str(AWAY)) from error
